import { permanentFailure, retryAfter } from "../dispatch/settlement.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import { signWebhook } from "../webhooks/schemes/sign-webhook.js";
import { guarded, publisherOptionNames } from "./guarded.js";
import type { PublishedMessage, Publisher, PublisherOptions } from "./publisher.js";

export interface WebhookPublisherOptions extends PublisherOptions {
  readonly url: string;
  /** `whsec_…`; several while one replaces the other: each signs. */
  readonly secrets: string | readonly string[];
  /** 15 s by default. */
  readonly timeoutMs?: number;
  /** Added to every request. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Posts to an HTTP endpoint, signed by Standard Webhooks. 2xx is taken; 410 is final; a Retry-After is kept to; anything
 * else, a redirect included, is tried again.
 *
 * @example
 * createDispatcher({ handlers: { "order.placed": webhookPublisher({ url: "https://example.com/hooks", secrets }) } })
 */
export function webhookPublisher(options: WebhookPublisherOptions): Publisher {
  refuseUnknown(
    options,
    ["url", "secrets", "timeoutMs", "headers", ...publisherOptionNames],
    "webhookPublisher",
  );
  const { url, secrets, timeoutMs = 15_000, headers = {} } = options;
  const target = URL.canParse(url) ? new URL(url) : undefined;
  if (target === undefined || !/^https?:$/.test(target.protocol))
    throw new InvalidArgumentError("webhookPublisher: url must be an http or https address.");
  requireDuration(timeoutMs, "webhookPublisher: timeoutMs");
  const own = lowerCased(headers);
  const sign = (message: PublishedMessage) =>
    signWebhook("standard", {
      url,
      secrets,
      body: message.payload,
      messageId: message.messageId,
      headers: { ...sendable(message.headers), ...own, "oncebox-topic": message.topic },
    });
  sign(trial); // a secret that cannot sign is refused now, not at the first message

  const signed = (message: PublishedMessage) => {
    try {
      return sign(message);
    } catch (error) {
      throw permanentFailure(`The message cannot be sent by HTTP. ${(error as Error).message}`);
    }
  };

  return guarded(`The webhook at ${target.host}`, options, async (message, { signal }) => {
    const request = signed(message);
    const response = await fetch(request.url, {
      method: request.method,
      headers: request.headers,
      body: request.body as string,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    await response.body?.cancel();
    if (response.ok) return;
    throw refusal(response, target.host);
  });
}

/** What belongs to a connection is not the message's to say, and fetch would refuse the whole request for it. */
const ofConnection =
  /^(connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*)$/i;

const sendable = (headers: PublishedMessage["headers"]): Record<string, string> =>
  lowerCased(Object.fromEntries(Object.entries(headers ?? {}).filter(([name]) => !ofConnection.test(name))));

/** Otherwise two spellings of a name would be sent as one header with both values. */
const lowerCased = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

const trial: PublishedMessage = {
  id: "00000000-0000-7000-8000-000000000000",
  messageId: "00000000-0000-7000-8000-000000000000",
  topic: "trial",
  payload: "",
  headers: null,
  correlationId: null,
};

function refusal({ status, headers }: Response, host: string): Error {
  const text = `${host} answered ${status}.`;
  if (status === 410) return permanentFailure(text);
  const waitMs = waitOf(headers.get("retry-after") ?? "");
  const isUsable = waitMs > 0 && waitMs <= 86_400_000;
  return isUsable ? retryAfter(waitMs, text) : new Error(text);
}

/** Seconds, or a date. */
const waitOf = (header: string): number =>
  /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
