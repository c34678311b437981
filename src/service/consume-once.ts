import type { LoggerOption } from "../base/logger.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { CallOptions } from "../queue/work-store.js";
import { withLease } from "./client/with-lease.js";
import { type ConsumedMessage, type ConsumerName, checkConsumerName, consumerKey } from "./consumer-key.js";
import { InboxKeyBusyError } from "./inbox-key-busy-error.js";
import type { InboxStore, LeasingInboxStore } from "./inbox-store.js";

export interface ConsumeOnceOptions extends ConsumerName {
  /** The header with the sender's own key for the message; in any case. `idempotency-key` by default. */
  readonly idempotencyHeader?: string | undefined;
  /** Who consumes, for operators to read. */
  readonly owner?: string | undefined;
  /** 30 s by default. The lease is renewed while the handler runs. */
  readonly leaseMs?: number | undefined;
  readonly logger?: LoggerOption | undefined;
}

export interface ConsumeContext {
  /** The message's key in the store. */
  readonly key: string;
  /** Aborts when another consumer may handle the message, and when the caller's signal does. Stop the work then. */
  readonly signal: AbortSignal;
}

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
    if (!hasLeases(store)) return handleUnleased(store, key, message, handler, signal);
    const outcome = await withLease(store, key, (lease) => handler(message, { key, signal: lease.signal }), {
      owner,
      leaseMs,
      logger,
      signal,
    });
    if (outcome.status === "Busy") throw new InboxKeyBusyError(key, outcome.expiresAt);
    return outcome.status === "Processed" ? "skipped" : "handled";
  };
}

const hasLeases = (store: InboxStore): store is LeasingInboxStore =>
  typeof (store as Partial<LeasingInboxStore>).tryBegin === "function";

/** Two deliveries at the same time are both handled here. That is the limit of a store without leases. */
async function handleUnleased<Message>(
  store: InboxStore,
  key: string,
  message: Message,
  handler: ConsumeHandler<Message>,
  signal: AbortSignal = new AbortController().signal,
): Promise<ConsumeOutcome> {
  if (await store.isProcessed(key, { signal })) return "skipped";
  await handler(message, { key, signal });
  await store.markProcessed(key); // not with the signal: the message is handled
  return "handled";
}
