import { safeReason } from "../base/safe-reason.js";
import { sentHeaders, type Tracing } from "../base/tracing.js";
import type { BatchMessage, ReceiveOutcome } from "../inbox/inbox.js";
import { type Ending, refuse } from "./ending.js";
import type { WebhookMessage } from "./extract-message.js";
import type { ReceiveDeadline } from "./receive-deadline.js";
import { acceptedResponse } from "./responses.js";
import type { ReceivedWebhook, WebhookInbox, WebhookRouteOptions } from "./route-options.js";
import type { ResolvedSource } from "./sources.js";

export interface StoringOptions {
  readonly inbox: WebhookRouteOptions["inbox"];
  readonly tracing: Tracing | undefined;
  /** Called for each new message after its commit. The answer waits for it no longer than `mostMs`. */
  readonly announce: ((webhook: ReceivedWebhook, mostMs: number) => Promise<void>) | undefined;
}

/** Stores the messages of a delivery, and answers after the commit. */
export type StoreMessages = (
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
  const outcome = ranked.find((one) => each.some((entry) => entry.outcome === one)) ?? "empty";
  const counts = Object.fromEntries(
    ranked
      .map((one) => [one, each.filter((entry) => entry.outcome === one).length] as const)
      .filter(([, count]) => count > 0),
  );
  return { response: acceptedResponse(source.scheme, { outcome, messages: each }), outcome, counts };
}

/** The outcome of a split delivery is the first of these that one of its messages has. */
const ranked: readonly ReceiveOutcome[] = ["enqueued", "conflict", "dead", "duplicate", "done"];

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
