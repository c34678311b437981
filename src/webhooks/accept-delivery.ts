import { type Logger, safeReason } from "../base/logger.js";
import { sentHeaders, type Tracing } from "../base/telemetry.js";
import { abortable, processTimers, withinTime } from "../base/timers.js";
import { InvalidOperationError } from "../errors.js";
import type { BatchMessage, ReceiveOutcome } from "../inbox/inbox.js";
import { extractMessages, maxEvents, type WebhookMessage } from "./extract-message.js";
import { endHandshake, findInProven, findWithToken } from "./handshake.js";
import { acceptedResponse, type Ending, refuse } from "./responses.js";
import type { ReceivedWebhook, WebhookInbox, WebhookRouteOptions } from "./route-options.js";
import { type Delivery, formOfQuery, isJsonType } from "./schemes/delivery.js";
import type { ResolvedSource } from "./sources.js";

const tooManyEvents = `the delivery has more than ${maxEvents} events: let the sender send fewer at once, or leave out split`;

/** Verifies a delivery before it uses anything of the body. Then it answers a handshake, or stores the events. */
export function deliveryAcceptor(store: ReturnType<typeof messageStore>, clock: () => Date) {
  const storeEvents = async (
    source: ResolvedSource,
    delivery: Delivery,
    deadline: ReceiveDeadline,
    events?: readonly Delivery[],
  ): Promise<Ending> => {
    const isJson = isJsonType(delivery.contentType) && delivery.body.length > 0 && !isEncoded(delivery);
    if (isJson && delivery.json() === undefined) return refuse("bad request", "the body is not JSON");
    const messages = extractMessages(delivery, source, clock(), events);
    if (messages === "no id") return refuse("bad request", "the request has neither an id nor a body");
    if (messages === "too many events") return refuse("too large", tooManyEvents);
    return store(source, messages, deadline);
  };

  return async (source: ResolvedSource, delivery: Delivery, deadline: ReceiveDeadline): Promise<Ending> => {
    const withToken =
      source.handshakes.length === 0
        ? undefined
        : await deadline.within("verifying", () => findWithToken(source, delivery));
    const refusal =
      withToken === undefined ? await deadline.within("verifying", () => source.verify(delivery)) : undefined;
    if (refusal !== undefined) return refuse("unauthorized", refusal);
    const found = withToken ?? findInProven(source, delivery);
    if (found === undefined) return storeEvents(source, formOfQuery(delivery), deadline);
    const { handshake, event, toStore } = found;
    const answered = () => deadline.within("the handshake", () => endHandshake(handshake, event));
    if (toStore.length === 0) return answered();
    const stored = await storeEvents(
      handshake.store ? asHandshake(source) : source,
      delivery,
      deadline,
      toStore,
    );
    if (stored.refusal !== undefined) return stored;
    const { response, refusal: unanswered } = await answered();
    return unanswered === undefined ? { ...stored, response } : stored;
  };
}

/**
 * A handshake that is stored takes neither id nor topic from its body: whoever knows the token of the URL could otherwise
 * make it look like an event, or take the id of one.
 */
const asHandshake = (source: ResolvedSource): ResolvedSource => ({ ...source, messageId: [], topic: [] });

/** Compressed JSON is stored as it is. */
const isEncoded = (delivery: Delivery): boolean =>
  !["", "identity"].includes((delivery.headers.get("content-encoding") ?? "").toLowerCase());

interface StoringOptions {
  readonly inbox: WebhookRouteOptions["inbox"];
  readonly tracing: Tracing | undefined;
  /** Called for each new message after its commit. The answer waits for it no longer than `mostMs`. */
  readonly announce: ((webhook: ReceivedWebhook, mostMs: number) => Promise<void>) | undefined;
}

/** Stores the messages of a delivery, and answers after the commit. */
type StoreMessages = (
  source: ResolvedSource,
  messages: readonly WebhookMessage[],
  deadline: ReceiveDeadline,
) => Promise<Ending>;

export function messageStore({ inbox, tracing, announce }: StoringOptions): StoreMessages {
  const inboxOf = async (message: WebhookMessage, deadline: ReceiveDeadline): Promise<WebhookInbox> =>
    typeof inbox === "function"
      ? deadline.within("choosing the inbox", () => inbox(identityOf(message)))
      : inbox;

  const incoming = ({ tenant: _, ...content }: WebhookMessage): BatchMessage =>
    // The context of this request takes the place of the provider's, to which its span links.
    tracing === undefined ? content : { ...content, headers: sentHeaders(tracing, content.headers) };

  /**
   * All messages of one tenant are stored in one round trip, all or none of them. When the time is over during that, they
   * may be stored nevertheless, and are duplicates when the provider sends them again.
   */
  const receive = async (
    messages: readonly WebhookMessage[],
    deadline: ReceiveDeadline,
  ): Promise<readonly ReceiveOutcome[]> => {
    const chosen = await inboxOf(messages[0]!, deadline);
    const { signal } = deadline;
    const [only, ...others] = messages;
    return deadline.within("storing", async () =>
      others.length === 0 && only!.dead === undefined
        ? [await chosen.receive(incoming(only!), { signal })]
        : chosen.enqueue(messages.map(incoming), { signal }),
    );
  };

  return async (source, messages, deadline) => {
    const groups = typeof inbox === "function" || messages.length === 0 ? byTenant(messages) : [messages];
    const stored = await Promise.allSettled(groups.map((group) => receive(group, deadline)));
    const outcomes = new Map<WebhookMessage, ReceiveOutcome>();
    let failed: PromiseRejectedResult | undefined;
    for (const [index, group] of groups.entries()) {
      const result = stored[index]!;
      if (result.status === "rejected") failed ??= result;
      else for (const [at, message] of group.entries()) outcomes.set(message, result.value[at]!);
    }
    const leftMs = deadline.remainingMs();
    const announced: (Promise<void> | undefined)[] = [];
    for (const message of messages) {
      const isNew = outcomes.get(message) === "enqueued" && message.dead === undefined;
      if (isNew) announced.push(announce?.(identityOf(message), leftMs));
    }
    await Promise.all(announced);
    // what was stored is a duplicate when the provider sends all of it again
    if (failed !== undefined) return notStored(messages, failed.reason);
    return endingOf(source, messages, outcomes);
  };
}

const notStored = (messages: readonly WebhookMessage[], error: unknown): Ending => ({
  ...refuse("unavailable", `storing failed: ${safeReason(error)}`),
  ...(messages.length === 1 ? { webhook: identityOf(messages[0]!) } : {}),
});

function endingOf(
  source: ResolvedSource,
  messages: readonly WebhookMessage[],
  outcomes: ReadonlyMap<WebhookMessage, ReceiveOutcome>,
): Ending {
  const [only] = messages;
  if (source.split === undefined && only !== undefined) {
    const outcome = outcomes.get(only)!;
    const response = acceptedResponse(source.scheme, { outcome, messageId: only.messageId });
    return { response, outcome, webhook: identityOf(only) };
  }
  const each = messages.map((message) => ({
    outcome: outcomes.get(message)!,
    messageId: message.messageId,
  }));
  const outcome = outcomeRank.find((one) => each.some((entry) => entry.outcome === one)) ?? "empty";
  const counts = Object.fromEntries(
    outcomeRank
      .map((one) => [one, each.filter((entry) => entry.outcome === one).length] as const)
      .filter(([, count]) => count > 0),
  );
  return { response: acceptedResponse(source.scheme, { outcome, messages: each }), outcome, counts };
}

/** The outcome of a split delivery is the first of these that one of its messages has. */
const outcomeRank: readonly ReceiveOutcome[] = ["enqueued", "conflict", "dead", "duplicate", "done"];

const byTenant = (messages: readonly WebhookMessage[]): readonly (readonly WebhookMessage[])[] => {
  const groups = new Map<string | null, WebhookMessage[]>();
  for (const message of messages) {
    const group = groups.get(message.tenant) ?? [];
    group.push(message);
    groups.set(message.tenant, group);
  }
  return [...groups.values()];
};

const identityOf = ({ source, messageId, topic, tenant }: WebhookMessage): ReceivedWebhook => ({
  source,
  messageId,
  topic,
  tenant,
});

/**
 * Calls the hook and waits for it, but no longer than `longestMs`, nor than the time that the request has left. Never
 * rejects: the message is committed.
 */
export function afterEnqueueCaller(
  hook: (webhook: ReceivedWebhook) => unknown,
  longestMs: number,
  logger: Logger,
): (webhook: ReceivedWebhook, mostMs: number) => Promise<void> {
  return async (webhook, mostMs) => {
    const ms = Math.min(longestMs, Math.round(mostMs));
    const tooLate = () => new InvalidOperationError(`afterEnqueue was still running after ${ms} ms.`);
    try {
      await withinTime(ms, (async () => hook(webhook))(), tooLate);
    } catch (error) {
      logger.warn("afterEnqueue failed; the message is safe", { ...webhook, error: safeReason(error) });
    }
  };
}

/** The time that one request has, from its arrival to its answer. All its steps share it. */
export interface ReceiveDeadline {
  /** Aborts when the time is over. */
  readonly signal: AbortSignal;
  remainingMs(): number;
  /** Starts a step and waits for it. When the time is over it rejects, and starts nothing. */
  within<T>(step: string, work: () => T | Promise<T>): Promise<T>;
  /** The error of a step that the time was not enough for. */
  overAt(step: string): Error;
  /** Ends the timer. */
  end(): void;
}

/** @param startedAt by `performance.now()` */
export function receiveDeadline(receiveMs: number, startedAt: number): ReceiveDeadline {
  const controller = new AbortController();
  const { signal } = controller;
  const remainingMs = () => Math.max(0, startedAt + receiveMs - performance.now());
  const overAt = (step: string) =>
    new InvalidOperationError(`The time of a request, ${receiveMs} ms (receiveMs), was over: ${step}.`);
  const end = processTimers.after(remainingMs(), () => controller.abort());
  return {
    signal,
    remainingMs,
    async within(step, work) {
      // by the clock as well: the timer is late when the process is busy
      if (signal.aborted || remainingMs() === 0) throw overAt(step);
      try {
        return await abortable((async () => work())(), signal);
      } catch (error) {
        throw signal.aborted ? overAt(step) : error;
      }
    },
    overAt,
    end,
  };
}
