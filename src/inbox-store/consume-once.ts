import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import type { LoggerOption } from "../base/logger.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { CallOptions } from "../queue/work-store.js";
import {
  checkAll,
  InboxKeyBusyError,
  type InboxStore,
  keyProblem,
  type LeasingInboxStore,
} from "./inbox-store.js";
import { type HeldLease, withLease } from "./with-lease.js";

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
  /** The header with the sender's own key for the message; in any case. `idempotency-key` by default. */
  readonly idempotencyHeader?: string | undefined;
  /** Who consumes, for operators to read. */
  readonly owner?: string | undefined;
  /** 30 s by default. The lease is renewed while the handler runs. */
  readonly leaseMs?: number | undefined;
  readonly logger?: LoggerOption | undefined;
}

/** What a handler of `consumeOnce` gets beside its message. */
export interface ConsumeContext {
  /** The message's key in the store. */
  readonly key: string;
  /** Aborts when another consumer may handle the message, and when the caller's signal does. Stop the work then. */
  readonly signal: AbortSignal;
}

/** Handles a message of `consumeOnce`. */
export type ConsumeHandler<Message> = (message: Message, context: ConsumeContext) => unknown;

/** What became of a delivery. Acknowledge it to the broker in both cases. */
export type ConsumeOutcome = "handled" | "skipped";

const known = ["bus", "group", "alias", "idempotencyHeader", "owner", "leaseMs", "logger"];

/**
 * Makes a consumer of any broker handle each message once. Call the returned function for each delivery: when it
 * resolves, acknowledge; when it rejects, let the broker deliver the message again. A processed key is skipped. Success
 * marks it, failure does not. With a store that has leases, of several consumers exactly one handles a message at a time.
 *
 * @throws InboxKeyBusyError while another consumer handles the message.
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
  checkConsumerName(options, "consumeOnce");
  const { idempotencyHeader = "idempotency-key", owner, leaseMs, logger } = options;

  return async (message, { signal } = {}) => {
    const key = consumerKey(options, message, idempotencyHeader);
    if (!hasLeases(store)) {
      // Two deliveries at the same time are both handled here. That is the limit of a store without leases.
      if (await store.isProcessed(key, { signal })) return "skipped";
      await handler(message, { key, signal: signal ?? new AbortController().signal });
      await store.markProcessed(key); // not with the signal: the message is handled
      return "handled";
    }
    const work = (lease: HeldLease) => handler(message, { key, signal: lease.signal });
    const outcome = await withLease(store, key, work, { owner, leaseMs, logger, signal });
    if (outcome.status === "Busy") throw new InboxKeyBusyError(key, outcome.expiresAt);
    return outcome.status === "Processed" ? "skipped" : "handled";
  };
}

const hasLeases = (store: InboxStore): store is LeasingInboxStore =>
  typeof (store as Partial<LeasingInboxStore>).tryBegin === "function";

const parts = ["bus", "group", "alias"] as const;

/** The longest prefix of a key that leaves room for a hash. */
const longestName = 255 - "sha256:".length - 64;

function checkConsumerName(name: ConsumerName, what: string): void {
  checkAll(what, [
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
export function consumerKey(name: ConsumerName, message: ConsumedMessage, header: string): string {
  const id = idOf(message, header);
  const key = prefixOf(name) + id;
  if (keyProblem(key) === undefined) return key;
  // In UTF-8 all lone surrogates are one character, and two messages would have one key.
  const bytes = Buffer.from(id, id.isWellFormed() ? "utf8" : "utf16le");
  return `${prefixOf(name)}sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

function idOf({ headers, messageId }: ConsumedMessage, header: string): string {
  const names = Object.keys(headers ?? {}).filter((name) => name.toLowerCase() === header.toLowerCase());
  const sent = names.map((name) => textOf(headers?.[name])).find((text) => text !== "");
  const id = sent ?? textOf(messageId);
  if (id !== "") return id;
  throw new InvalidArgumentError(
    `The message has neither a header "${header}" nor a messageId, so a duplicate of it cannot be recognised. Pass one of them.`,
  );
}

/** Bytes that are no UTF-8, such as those of a number, are written in hex: as text, many of them would be the same. */
function textOf(value: unknown): string {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  if (first instanceof Uint8Array)
    return isUtf8(first) ? Buffer.from(first).toString() : `hex:${Buffer.from(first).toString("hex")}`;
  return typeof first === "string" || typeof first === "number" ? String(first) : "";
}
