import type { InboxKey, OutboxKey } from "../queue/message.js";
import type { CorrelatedMessage, OperatorReads } from "../queue/operator-reads.js";
import type { CallOptions } from "../queue/work-store.js";

/** One message on the way of an event. */
export type WayStep =
  | ({ readonly queue: "inbox" } & CorrelatedMessage<InboxKey>)
  | ({ readonly queue: "outbox" } & CorrelatedMessage<OutboxKey>);

export interface WayStores {
  readonly inbox: Pick<OperatorReads<InboxKey>, "byCorrelation">;
  readonly outbox: Pick<OperatorReads<OutboxKey>, "byCorrelation">;
}

/** Correlation ids that are followed: those of the messages that the given id finds. */
const mostIds = 10;

/**
 * The way of one event: the messages of inbox and outbox that belong to it, in the order in which they were enqueued. `id` is a
 * correlation id, the message id of an inbox message, or the id of an outbox message. At most 100 messages of each queue.
 *
 * @example
 * for (const { queue, topic, state, doneAt } of await messageWay({ inbox: operatorsOf(inbox), outbox: operatorsOf(outbox) }, "evt_1")) console.log(queue, topic, state, doneAt);
 */
export async function messageWay(
  { inbox, outbox }: WayStores,
  id: string,
  call: CallOptions = {},
): Promise<readonly WayStep[]> {
  const found = new Map<string, WayStep>();
  const lookUp = async (one: string): Promise<void> => {
    for (const message of await inbox.byCorrelation(one, call))
      found.set(JSON.stringify(message.key), { queue: "inbox", ...message });
    for (const message of await outbox.byCorrelation(one, call))
      found.set(JSON.stringify(message.key), { queue: "outbox", ...message });
  };
  await lookUp(id);
  for (const other of relatedTo(id, [...found.values()])) await lookUp(other);
  return [...found.values()].sort(byTime).slice(0, mostSteps);
}

/** A message that was found leads to those that share its correlation id, or have the id of the received one as theirs. */
function relatedTo(id: string, steps: readonly WayStep[]): readonly string[] {
  const received = steps.flatMap((step) => (step.queue === "inbox" ? [step.messageId] : []));
  const related = new Set([...steps.map(({ correlationId }) => correlationId), ...received]);
  return [...related].filter((one) => one !== null && one !== id).slice(0, mostIds) as string[];
}

const mostSteps = 200;

/** Of two that were enqueued within the same millisecond, the received one is the cause. */
const byTime = (a: WayStep, b: WayStep): number =>
  a.enqueuedAt.getTime() - b.enqueuedAt.getTime() || a.queue.localeCompare(b.queue);
