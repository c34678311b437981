import type { LookupAddress } from "node:dns";
import type { ClientRequest, IncomingMessage, RequestOptions } from "node:http";
import { BlockList, isIP, isIPv4, type LookupFunction } from "node:net";
import { permanentFailure, retryAfter } from "../dispatch/settlement.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import { standard } from "../webhooks/presets/standard.js";
import { toVerifyingKey } from "../webhooks/schemes/signing-key.js";
import { signWebhook } from "../webhooks/signing/sign-webhook.js";
import { RefusedMessage } from "./circuit-breaker.js";
import { binaryContent, headerText, lowerCased } from "./cloud-events.js";
import {
  type PublishedMessage,
  type Publisher,
  type PublisherOptions,
  publisherOptionNames,
  publishTo,
} from "./publisher.js";

/** Options of a publisher by signed webhooks. */
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
  const contentOf = ({ payload, headers }: SignedMessage) =>
    options.format === "cloudevents-binary"
      ? binaryContent({ payload, headers })
      : { body: payload, headers };
  const sign = (message: SignedMessage) => {
    const { messageId, topic, type = topic } = message;
    const { body, headers: given } = contentOf(message);
    return signWebhook(standard, {
      ...{ url, secrets, body, messageId },
      headers: {
        ...sendable(given),
        ...ownHeaders,
        "oncebox-topic": headerText(topic),
        "oncebox-type": headerText(type),
      },
    });
  };
  requireLongSecrets(options);
  // throws now, not at the first message, when a secret cannot sign
  sign({ messageId: "sample", topic: "sample", payload: "", headers: null });

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
      const { headers, body } = signed(message);
      const sent = { url: target, headers, body, signal };
      const { status, retryAfter: later } = await postRequest(sent, allowPrivateAddresses, network);
      if (status >= 200 && status < 300) return;
      throw refusal(status, later, target.host);
    },
    ["cloudevents", "cloudevents-binary"],
  );
}

type SignedMessage = Pick<PublishedMessage, "messageId" | "topic" | "type" | "payload" | "headers">;

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

interface PostRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  readonly signal: AbortSignal;
}

/** What reaches the network. */
export interface Network {
  resolve(host: string): Promise<readonly LookupAddress[]>;
  /** Sends by a module of Node. `lookup` returns the addresses that were checked, and no others. */
  request(
    url: URL,
    options: RequestOptions & { lookup: LookupFunction },
    responded: (response: IncomingMessage) => void,
  ): ClientRequest;
}

const nodeNetwork = async (protocol: string): Promise<Network> => {
  const { lookup } = await import("node:dns/promises");
  const { request } = protocol === "https:" ? await import("node:https") : await import("node:http");
  return { resolve: (host) => lookup(host, { all: true }), request };
};

/** A response whose body is longer than this is cut off, with its connection. */
const longestDiscarded = 65_536;

/**
 * Posts a request and returns the head of the response. The host is resolved once, all of its addresses are checked, and
 * the connection goes to one of these: a name that is resolved again could point at another machine by then.
 */
async function postRequest(
  { url, headers, body, signal }: PostRequest,
  allowPrivate: boolean,
  given?: Network,
): Promise<{ readonly status: number; readonly retryAfter: string | undefined }> {
  const network = given ?? (await nodeNetwork(url.protocol));
  const addresses = await addressesOf(url, network);
  if (!allowPrivate && !addresses.every(({ address }) => isPublicAddress(address)))
    throw new InvalidOperationError(privateAddress(url.host));
  signal.throwIfAborted();
  const lookup: LookupFunction = (_host, { all }, found) =>
    all ? found(null, [...addresses]) : found(null, addresses[0]!.address, addresses[0]!.family);
  const length = Buffer.byteLength(body);
  return new Promise((resolve, reject) => {
    const options = { method: "POST", headers: { ...headers, "content-length": length }, signal, lookup };
    const request = network.request(url, options, (response) => {
      discard(response);
      resolve({ status: response.statusCode ?? 0, retryAfter: response.headers["retry-after"] });
    });
    request.on("error", reject); // stays: an error after the end must not end the process
    request.end(body);
  });
}

const privateAddress = (host: string): string =>
  `${host} is, or resolves to, a private, loopback or link-local address. Set allowPrivateAddresses to send there.`;

async function addressesOf({ hostname }: URL, network: Network): Promise<readonly LookupAddress[]> {
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const family = isIP(host);
  return family === 0 ? network.resolve(host) : [{ address: host, family }];
}

/** The connection is kept for the next request, if that costs little. */
function discard(response: IncomingMessage): void {
  let length = 0;
  response.on("error", () => {});
  response.on("data", (chunk: Buffer) => {
    length += chunk.byteLength;
    if (length > longestDiscarded) response.destroy();
  });
}

/** One for each family: a list compares an IPv4 address with the IPv6 form of IPv4, too. */
const notPublic = { ipv4: new BlockList(), ipv6: new BlockList() };
for (const [net, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["168.63.129.16", 32], // Azure's own services of a machine, its certificates and settings among them
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
] as const)
  notPublic.ipv4.addSubnet(net, prefix, "ipv4");
for (const [net, prefix] of [
  ["::", 96], // unspecified, loopback, and IPv4 in its old form
  ["::ffff:0:0", 96], // IPv4
  ["::ffff:0:0:0", 96], // IPv4 of a host that translates
  ["64:ff9b::", 96], // IPv4 behind a translator
  ["64:ff9b:1::", 48],
  ["2001::", 32], // IPv4 in a tunnel: Teredo
  ["2002::", 16], // 6to4
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
] as const)
  notPublic.ipv6.addSubnet(net, prefix, "ipv6");

/** Whether an address belongs to nobody's own network: neither private nor loopback nor link-local nor multicast. */
export function isPublicAddress(address: string): boolean {
  const plain = address.split("%", 1)[0]!;
  if (isIP(plain) === 0) return false;
  const family = isIPv4(plain) ? "ipv4" : "ipv6";
  return !notPublic[family].check(plain, family);
}
