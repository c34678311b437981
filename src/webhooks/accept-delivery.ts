import { abortable, processTimers, withinTime } from "../base/async.js";
import { type Logger, safeReason } from "../base/logger.js";
import { sentHeaders } from "../base/telemetry.js";
import { InvalidOperationError } from "../errors.js";
import type { BatchMessage, ReceiveOutcome } from "../inbox/inbox.js";
import { eventsOf, extractMessages, type WebhookMessage } from "./extract-message.js";
import { answerHandshake, findInProven, findWithToken, hasHandshakeEvents } from "./handshake.js";
import { acceptedResponse, refuse, type WebhookResult } from "./responses.js";
import type { ReceivedWebhook, WebhookInbox, WebhookRouteOptions } from "./route-options.js";
import { type Delivery, formOfQuery, isJsonType, maxEvents } from "./schemes/delivery.js";
import { maxDepth } from "./schemes/json-scan.js";
import type { ResolvedSource } from "./sources.js";

interface AcceptOptions extends Pick<WebhookRouteOptions, "inbox" | "tracing" | "afterEnqueue"> {
  readonly afterEnqueueMs: number;
  readonly logger: Logger;
  readonly clock: () => Date;
}

/** Verifies deliveries before it uses anything of their bodies. Then it answers handshakes, and stores events. */
export class DeliveryAcceptor {
  readonly #options: AcceptOptions;

  constructor(options: AcceptOptions) {
    this.#options = options;
  }

  async accept(
    source: ResolvedSource,
    delivery: Delivery,
    deadline: ReceiveDeadline,
  ): Promise<WebhookResult> {
    const hasHandshakes = source.handshakes.length > 0;
    const withToken = hasHandshakes
      ? await deadline.within("verifying", () => findWithToken(source, delivery))
      : undefined;
    if (withToken === undefined) {
      const refusal = await deadline.within("verifying", () => source.verify(delivery));
      if (refusal !== undefined) return refuse("unauthorized", refusal);
    }
    const events = hasHandshakes && hasHandshakeEvents(source) ? eventsOf(delivery, source) : undefined;
    const found = withToken ?? (hasHandshakes ? findInProven(source, delivery, events) : undefined);
    if (found === undefined) return this.#storeEvents(source, formOfQuery(delivery), deadline, events);
    const { handshake, event, toStore } = found;
    const answer = () => deadline.within("the handshake", () => answerHandshake(handshake, event));
    if (toStore.length === 0) return answer();
    const storing = handshake.store ? asHandshake(source) : source;
    const stored = await this.#storeEvents(storing, delivery, deadline, toStore);
    if (stored.response === undefined) return stored;
    const { response = stored.response } = await answer();
    return { ...stored, response };
  }

  async #storeEvents(
    source: ResolvedSource,
    delivery: Delivery,
    deadline: ReceiveDeadline,
    events?: readonly Delivery[],
  ): Promise<WebhookResult> {
    const isJson = isJsonType(delivery.contentType) && delivery.body.length > 0 && !isEncoded(delivery);
    if (isJson && delivery.json() === undefined)
      return refuse("bad request", `the body is not JSON of at most ${maxDepth} levels`);
    const messages = extractMessages(delivery, source, this.#options.clock(), events);
    if (messages === "no id") return refuse("bad request", "the request has neither an id nor a body");
    if (messages === "too many events") return refuse("too large", tooManyEvents);
    return this.#store(source, messages, deadline);
  }

  /** Returns after the commit. */
  async #store(
    source: ResolvedSource,
    messages: readonly WebhookMessage[],
    deadline: ReceiveDeadline,
  ): Promise<WebhookResult> {
    const isOneInbox = typeof this.#options.inbox !== "function" && messages.length > 0;
    const groups = isOneInbox ? [messages] : byTenant(messages);
    const outcomes = new Map<WebhookMessage, ReceiveOutcome>();
    const store = async (group: readonly WebhookMessage[]): Promise<void> => {
      const stored = await this.#receive(group, source, deadline);
      for (const [index, message] of group.entries()) outcomes.set(message, stored[index]!);
    };
    const ends = await Promise.allSettled(groups.map(store));
    const failed = ends.find((end) => end.status === "rejected");
    const isNew = (message: WebhookMessage): boolean =>
      outcomes.get(message) === "enqueued" && message.dead === undefined;
    const leftMs = deadline.remainingMs();
    await Promise.all(messages.filter(isNew).map((message) => this.#announce(identityOf(message), leftMs)));
    // what was stored is a duplicate when the provider sends all of it again
    if (failed !== undefined) return notStored(messages, failed.reason);
    return storedResult(source, messages, outcomes);
  }

  /**
   * All messages of one tenant are stored in one round trip, all or none of them. When the time is over during that, they
   * may be stored nevertheless, and are duplicates when the provider sends them again.
   */
  async #receive(
    messages: readonly WebhookMessage[],
    { isSignedInPart }: ResolvedSource,
    deadline: ReceiveDeadline,
  ): Promise<readonly ReceiveOutcome[]> {
    const { inbox: given } = this.#options;
    const [only, ...others] = messages;
    const inbox: WebhookInbox =
      typeof given === "function"
        ? await deadline.within("choosing the inbox", () => given(identityOf(only!)))
        : given;
    // whoever has a copy could send it with anything in its unsigned part
    const call = { signal: deadline.signal, ...(isSignedInPart && { keepContent: true }) };
    return deadline.within("storing", async () =>
      others.length === 0 && only!.dead === undefined
        ? [await inbox.receive(this.#incoming(only!), call)]
        : inbox.enqueue(
            messages.map((message) => this.#incoming(message)),
            call,
          ),
    );
  }

  #incoming({ tenant: _, ...content }: WebhookMessage): BatchMessage {
    const { tracing } = this.#options;
    // The context of this request takes the place of the provider's, to which its span links.
    return tracing === undefined ? content : { ...content, headers: sentHeaders(tracing, content.headers) };
  }

  /**
   * Calls the hook and waits for it, but no longer than `afterEnqueueMs`, nor than the time that the request has left. Never
   * rejects: the message is committed.
   */
  async #announce(webhook: ReceivedWebhook, leftMs: number): Promise<void> {
    const { afterEnqueue, afterEnqueueMs, logger } = this.#options;
    if (afterEnqueue === undefined) return;
    const ms = Math.min(afterEnqueueMs, Math.round(leftMs));
    const tooLate = () => new InvalidOperationError(`afterEnqueue was still running after ${ms} ms.`);
    try {
      await withinTime(ms, (async () => afterEnqueue(webhook))(), tooLate);
    } catch (error) {
      logger.warn("afterEnqueue failed; the message is safe", { ...webhook, error: safeReason(error) });
    }
  }
}

const tooManyEvents = `the delivery has more than ${maxEvents} events: let the sender send fewer at once, or leave out split`;

/**
 * A handshake that is stored takes neither id, topic nor order from its body: whoever knows the token of the URL could otherwise
 * make it look like an event, or take the id of one.
 */
const asHandshake = (source: ResolvedSource): ResolvedSource => ({
  ...source,
  ...{ messageId: [], topic: [], partitionKey: [] },
});

/** Compressed JSON is stored as it is. */
const isEncoded = (delivery: Delivery): boolean =>
  !["", "identity"].includes((delivery.headers.get("content-encoding") ?? "").toLowerCase());

function byTenant(messages: readonly WebhookMessage[]): readonly (readonly WebhookMessage[])[] {
  const groups = new Map<string | null, WebhookMessage[]>();
  for (const message of messages) {
    const group = groups.get(message.tenant) ?? [];
    group.push(message);
    groups.set(message.tenant, group);
  }
  return [...groups.values()];
}

const identityOf = ({ source, messageId, topic, tenant }: WebhookMessage): ReceivedWebhook => ({
  source,
  messageId,
  topic,
  tenant,
});

const notStored = (messages: readonly WebhookMessage[], error: unknown): WebhookResult => ({
  ...refuse("unavailable", `storing failed: ${safeReason(error)}`),
  ...(messages.length === 1 && { webhook: identityOf(messages[0]!) }),
});

function storedResult(
  source: ResolvedSource,
  messages: readonly WebhookMessage[],
  outcomes: ReadonlyMap<WebhookMessage, ReceiveOutcome>,
): WebhookResult {
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
  const counts: Partial<Record<ReceiveOutcome, number>> = {};
  for (const one of outcomeRank) {
    const count = each.filter((entry) => entry.outcome === one).length;
    if (count > 0) counts[one] = count;
  }
  const outcome = outcomeRank.find((one) => counts[one] !== undefined) ?? "empty";
  return { response: acceptedResponse(source.scheme, { outcome, messages: each }), outcome, counts };
}

/** The outcome of a split delivery is the first of these that one of its messages has. */
const outcomeRank: readonly ReceiveOutcome[] = ["enqueued", "conflict", "dead", "duplicate", "done"];

/** The time that one request has, from its arrival to its answer. All its steps share it. */
export class ReceiveDeadline {
  readonly #receiveMs: number;
  readonly #startedAt: number;
  readonly #controller = new AbortController();
  /** Ends the timer. */
  readonly end: () => void;

  /** @param startedAt by `performance.now()` */
  constructor(receiveMs: number, startedAt: number) {
    this.#receiveMs = receiveMs;
    this.#startedAt = startedAt;
    this.end = processTimers.after(this.remainingMs(), () => this.#controller.abort());
  }

  /** Aborts when the time is over. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  remainingMs(): number {
    return Math.max(0, this.#startedAt + this.#receiveMs - performance.now());
  }

  /** Starts a step and waits for it. When the time is over it rejects, and starts nothing. */
  async within<T>(step: string, work: () => T | Promise<T>): Promise<T> {
    // by the clock as well: the timer is late when the process is busy
    if (this.signal.aborted || this.remainingMs() === 0) throw this.overAt(step);
    try {
      return await abortable((async () => work())(), this.signal);
    } catch (error) {
      throw this.signal.aborted ? this.overAt(step) : error;
    }
  }

  /** The error of a step that the time was not enough for. */
  overAt(step: string): Error {
    return new InvalidOperationError(
      `The time of a request, ${this.#receiveMs} ms (receiveMs), was over: ${step}.`,
    );
  }
}
