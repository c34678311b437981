import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { abortAfter } from "../base/async.js";
import type { LoggerOption } from "../base/logger.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { CallOptions } from "../queue/work-store.js";
import {
  checkAll,
  InboxKeyBusyError,
  type InboxStore,
  keyProblem,
  type LeasingInboxStore,
} from "./inbox-store.js";
import { defaultWorkTimeoutMs, type HeldLease, WorkTimedOutError, withLease } from "./with-lease.js";

/** What a broker delivered, as far as deduplication needs it. Pass whatever else the handler needs with it. */
export interface ConsumedMessage {
  readonly messageId?: string | number | Uint8Array | null | undefined;
  /** Texts, numbers, or bytes as Kafka has them; of several values of a header the first counts. */
  readonly headers?: Readonly<Record<string, unknown>> | null | undefined;
}

/** Whose keys they are: each group handles each message once. */
export interface ConsumerName {
  /** The broker or its tenant. */
  readonly bus: string;
  /** The consumers that share the work, such as the service's name. */
  readonly group: string;
  /** The kind of message. */
  readonly alias: string;
}

/** Options of `consumeOnce`. */
export interface ConsumeOnceOptions extends ConsumerName {
  /** The header with the sender's own key for the message; in any case. By default `idempotency-key` or else `IdempotencyKey`. */
  readonly idempotencyHeader?: string | undefined;
  /** Who consumes, for operators to read. */
  readonly owner?: string | undefined;
  /** 30 s by default. The lease is renewed while the handler runs. */
  readonly leaseMs?: number | undefined;
  /**
   * How long the handler may take: 5 minutes by default. Then its signal aborts and its lease is no longer renewed. A handler
   * that goes on until the lease is over is given up, and the broker's next delivery is handled.
   */
  readonly timeoutMs?: number | undefined;
  readonly logger?: LoggerOption | undefined;
}

/** What a handler of `consumeOnce` gets beside its message. */
export interface ConsumeContext {
  /** The message's key in the store. */
  readonly key: string;
  /** Aborts when another consumer may handle the message, when the handler's time is over, and when the caller's signal does. */
  readonly signal: AbortSignal;
}

/** Handles a message of `consumeOnce`. */
export type ConsumeHandler<Message> = (message: Message, context: ConsumeContext) => unknown;

/** What became of a delivery. Acknowledge it to the broker in both cases. */
export type ConsumeOutcome = "handled" | "skipped";

const known = ["bus", "group", "alias", "idempotencyHeader", "owner", "leaseMs", "timeoutMs", "logger"];

/**
 * Makes a consumer of any broker handle each message once. Call the returned function for each delivery: when it
 * resolves, acknowledge; when it rejects, let the broker deliver the message again. A processed key is skipped. Success
 * marks it, failure does not. With a store that has leases, of several consumers exactly one handles a message at a time.
 *
 * @throws InboxKeyBusyError while another consumer handles the message.
 * @throws WorkTimedOutError when the handler went on after its time limit until its lease was over.
 * @example
 * const once = consumeOnce(store, { bus: "shop", group: "billing", alias: "order.placed" }, sendInvoice);
 * await once({ messageId: delivery.id, headers: delivery.headers, body: delivery.body });
 */
export function consumeOnce<Message extends ConsumedMessage>(
  store: InboxStore | LeasingInboxStore,
  options: ConsumeOnceOptions,
  handler: ConsumeHandler<Message>,
): (message: Message, call?: CallOptions) => Promise<ConsumeOutcome> {
  refuseUnknown(options, known, "consumeOnce");
  checkConsumer(options, "consumeOnce");
  const { idempotencyHeader, owner, leaseMs, timeoutMs = defaultWorkTimeoutMs, logger } = options;
  const headers = idempotencyHeader === undefined ? defaultHeaders : [idempotencyHeader];

  return async (message, { signal } = {}) => {
    const key = consumerKey(options, message, headers);
    if (!hasLeases(store)) {
      // Two deliveries at the same time are both handled here. That is the limit of a store without leases.
      if (await store.isProcessed(key, { signal })) return "skipped";
      const handle = (stop: AbortSignal) => handler(message, { key, signal: stop });
      await abortAfter(timeoutMs, handle, () => new WorkTimedOutError(timeoutMs), signal);
      await store.markProcessed(key); // not with the signal: the message is handled
      return "handled";
    }
    const work = (lease: HeldLease) => handler(message, { key, signal: lease.signal });
    const outcome = await withLease(store, key, work, { owner, leaseMs, timeoutMs, logger, signal });
    if (outcome.status === "Busy") throw new InboxKeyBusyError(key, outcome.expiresAt);
    return outcome.status === "Processed" ? "skipped" : "handled";
  };
}

/** The second is that of the contract of inbox services. */
const defaultHeaders = ["idempotency-key", "IdempotencyKey"];

const hasLeases = (store: InboxStore): store is LeasingInboxStore =>
  typeof (store as Partial<LeasingInboxStore>).tryBegin === "function";

const parts = ["bus", "group", "alias"] as const;

/** The longest prefix of a key that leaves room for a hash. */
const longestName = 255 - "sha256:".length - 64;

function checkConsumer({ leaseMs, timeoutMs, ...name }: ConsumeOnceOptions, what: string): void {
  checkAll(what, [
    () => leaseMs !== undefined && requireDuration(leaseMs, "leaseMs"),
    () => timeoutMs !== undefined && requireDuration(timeoutMs, "timeoutMs"),
    ...parts.map((part) => () => {
      const separator = 'must not contain ":", which separates the parts of a key.';
      const problem = keyProblem(name[part]) ?? (name[part].includes(":") ? separator : undefined);
      if (problem !== undefined) throw new InvalidArgumentError(`${part} ${problem}`);
    }),
    () => {
      const { length } = prefixOf(name);
      if (length > longestName)
        throw new InvalidArgumentError(
          `bus, group and alias have ${length} characters with their separators; at most ${longestName} leave room for the message's id.`,
        );
    },
  ]);
}

const prefixOf = (name: ConsumerName): string => parts.map((part) => `${name[part]}:`).join("");

/**
 * `{bus}:{group}:{alias}:{idKey}`. An id that no store takes as it stands, because it is too long or has control
 * characters, is replaced by its hash: refusing it would leave its message undelivered for ever.
 */
export function consumerKey(
  name: ConsumerName,
  message: ConsumedMessage,
  headers: readonly string[],
): string {
  const id = idOf(message, headers);
  const key = prefixOf(name) + id;
  if (keyProblem(key) === undefined) return key;
  // In UTF-8 all lone surrogates are one character, and two messages would have one key.
  const bytes = Buffer.from(id, id.isWellFormed() ? "utf8" : "utf16le");
  return `${prefixOf(name)}sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

function idOf({ headers, messageId }: ConsumedMessage, wanted: readonly string[]): string {
  const sent = Object.entries(headers ?? {});
  const valuesOf = (header: string) =>
    sent.filter(([name]) => name.toLowerCase() === header.toLowerCase()).map(([, value]) => textOf(value));
  const id = wanted.flatMap(valuesOf).find((text) => text !== "") ?? textOf(messageId);
  if (id !== "") return id;
  const names = wanted.map((header) => `"${header}"`).join(" or ");
  throw new InvalidArgumentError(
    `The message has neither a header ${names} nor a messageId, so a duplicate of it cannot be recognised. Pass one of them.`,
  );
}

/** Bytes that are no UTF-8, such as those of a number, are written in hex: as text, many of them would be the same. */
function textOf(value: unknown): string {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  if (first instanceof Uint8Array)
    return isUtf8(first) ? Buffer.from(first).toString() : `hex:${Buffer.from(first).toString("hex")}`;
  return typeof first === "string" || typeof first === "number" ? String(first) : "";
}
