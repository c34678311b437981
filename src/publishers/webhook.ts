import { isIP } from "node:net";
import { permanentFailure, retryAfter } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import { standard } from "../webhooks/presets/standard.js";
import { toVerifyingKey } from "../webhooks/schemes/signing-key.js";
import { signWebhook } from "../webhooks/signing/sign-webhook.js";
import { publisherOptionNames } from "./guarded.js";
import { type Network, postRequest, privateAddress } from "./post-request.js";
import { isPublicAddress } from "./public-address.js";
import { publishTo } from "./publish-to.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";
import { RefusedMessage } from "./refused-message.js";

export interface WebhookPublisherOptions extends PublisherOptions {
  readonly url: string;
  /** `whsec_…`. During a rotation give the old and the new one: the request is signed with each. */
  readonly secrets: string | readonly string[];
  /** Accepts secrets of fewer than 16 bytes, which a receiver can guess from a single message. */
  readonly allowShortSecrets?: boolean;
  /** Headers that are added to every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sends by http as well. Anyone on the way can read and change such a message. */
  readonly allowHttp?: boolean;
  /** Sends to private, loopback and link-local addresses as well. Not for URLs that others may choose. */
  readonly allowPrivateAddresses?: boolean;
}

const optionNames = [
  "url",
  "secrets",
  "allowShortSecrets",
  "headers",
  "allowHttp",
  "allowPrivateAddresses",
  ...publisherOptionNames,
];

/**
 * Posts to an HTTP endpoint, signed by Standard Webhooks. 2xx means published, 410 is a permanent failure, and a
 * Retry-After header sets the delay. Every other response, redirects included, is retried with back-off.
 *
 * @example
 * createDispatcher({ store: outbox, handlers: { "order.placed": webhookPublisher({ url: "https://example.com/hooks", secrets }) } })
 */
export function webhookPublisher(options: WebhookPublisherOptions): Publisher {
  return webhookPublisherOn(options, undefined);
}

/** `network`: for tests. */
export function webhookPublisherOn(
  options: WebhookPublisherOptions,
  network: Network | undefined,
): Publisher {
  refuseUnknown(options, optionNames, "webhookPublisher");
  const { url, secrets, timeoutMs = 15_000, headers = {}, allowPrivateAddresses = false } = options;
  const target = targetOf(options);
  const ownHeaders = lowerCased(headers);
  const sign = (message: PublishedMessage) =>
    signWebhook(standard, {
      url,
      secrets,
      body: message.payload,
      messageId: message.messageId,
      headers: { ...sendable(message.headers), ...ownHeaders, "oncebox-topic": message.topic },
    });
  requireLongSecrets(options);
  sign(sample); // throws now, not at the first message, when a secret cannot sign

  const signed = (message: PublishedMessage) => {
    try {
      return sign(message);
    } catch (error) {
      throw permanentFailure(`The message cannot be sent by HTTP. ${(error as Error).message}`);
    }
  };

  return publishTo(
    `The webhook at ${target.host}`,
    { ...options, timeoutMs },
    async (message, { signal }) => {
      const request = signed(message);
      const { body } = request;
      const sent = { url: target, headers: request.headers as Record<string, string>, body, signal };
      const { status, headers: returned } = await postRequest(sent, allowPrivateAddresses, network);
      if (status >= 200 && status < 300) return;
      throw refusal(status, returned["retry-after"], target.host);
    },
  );
}

function requireLongSecrets({ secrets, allowShortSecrets = false }: WebhookPublisherOptions): void {
  for (const [index, secret] of [secrets].flat().entries()) {
    const key = toVerifyingKey(standard.verify, secret, allowShortSecrets);
    if (typeof key === "string")
      throw new InvalidArgumentError(`webhookPublisher: secrets[${index}] ${key}.`);
  }
}

function targetOf({ url, allowHttp, allowPrivateAddresses }: WebhookPublisherOptions): URL {
  const target = URL.canParse(url) ? new URL(url) : undefined;
  if (target === undefined || !/^https?:$/.test(target.protocol))
    throw new InvalidArgumentError("webhookPublisher: url must be an http or https address.");
  if (target.username !== "" || target.password !== "")
    throw new InvalidArgumentError(
      "webhookPublisher: url must have no user and password, which would be logged. Send them as headers: { authorization: … }.",
    );
  if (target.protocol === "http:" && !allowHttp)
    throw new InvalidArgumentError("webhookPublisher: url must be https. Set allowHttp to send by http.");
  const host = target.hostname.replace(/^\[(.*)\]$/, "$1");
  if (isIP(host) !== 0 && !isPublicAddress(host) && !allowPrivateAddresses)
    throw new InvalidArgumentError(`webhookPublisher: ${privateAddress(target.host)}`);
  return target;
}

/** Headers of a connection, and credentials of whoever sent the message. A message must not set them. */
const connectionHeaders =
  /^(authorization|connection|content-length|cookie|expect|host|keep-alive|set-cookie|te|trailers?|transfer-encoding|upgrade|proxy-.*)$/i;

const sendable = (headers: PublishedMessage["headers"]): Record<string, string> =>
  lowerCased(
    Object.fromEntries(Object.entries(headers ?? {}).filter(([name]) => !connectionHeaders.test(name))),
  );

/** Two spellings of one name would otherwise be sent as one header with both values. */
const lowerCased = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

const sample: PublishedMessage = {
  id: "00000000-0000-7000-8000-000000000000",
  messageId: "00000000-0000-7000-8000-000000000000",
  topic: "sample",
  payload: "",
  headers: null,
  correlationId: null,
};

function refusal(status: number, later: string | undefined, host: string): Error {
  const text = `${host} answered ${status}.`;
  if (status === 410) return permanentFailure(text);
  const delayMs = retryAfterMs(later ?? "");
  const isUsable = delayMs > 0 && delayMs <= 86_400_000; // a day
  if (isUsable) return retryAfter(delayMs, text);
  return status === 413 || status === 422 ? new RefusedMessage(text) : new Error(text);
}

/** A Retry-After header holds seconds or a date. */
const retryAfterMs = (header: string): number =>
  /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
