import { severalAtOnce } from "../base/several-at-once.js";
import { yieldToEventLoop } from "../base/wait.js";
import type { QueueMessage } from "../queue/message.js";
import type { OwnerToken } from "../queue/owner-token.js";
import type { CallOptions, Settlement } from "../queue/work-store.js";
import type { HeldMessage, RunState } from "./run-state.js";
import { type SettleCall, sendSettlement } from "./send-settlement.js";
import type { Decision } from "./settlement.js";

/**
 * One after the other, the calls of several claims would outlast the reserve at the end of a run. A pool has 4 connections
 * by default: slow calls leave one of them for renewals.
 */
const callsAtOnce = 3;

/**
 * Sends the settlements of finished messages to the store, one group at a time. Messages that finish meanwhile make the
 * next group: groups are small while handlers are slow and large while they are fast. If the function is
 * killed, only finished messages that are not settled yet are handled again.
 */
export function settleFinished<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): void {
  if (run.isSettling || run.unsent.length === 0) return;
  run.isSettling = true;
  void settleGroups(run);
}

async function settleGroups<Message extends QueueMessage, Tx>(run: RunState<Message, Tx>): Promise<void> {
  await yieldToEventLoop(); // messages that finish in the same tick go together
  while (run.unsent.length > 0) {
    const group = run.unsent;
    run.unsent = [];
    await severalAtOnce(callsFor(run, group), callsAtOnce, (call) => sendSettlement(run, call));
  }
  run.isSettling = false;
  run.changed.notify();
}

type Abandon = Extract<Decision, { kind: "abandon" }>;

/** One call for each claim and kind of decision; abandons by their limit of attempts, failures one by one. */
function callsFor<Message extends QueueMessage, Tx>(
  { store }: RunState<Message, Tx>,
  group: readonly HeldMessage<Message, Tx>[],
): readonly SettleCall<Message, Tx>[] {
  const batches = new Map<string, HeldMessage<Message, Tx>[]>();
  for (const held of group) {
    const decision = held.decision!;
    const limit = decision.kind === "abandon" ? decision.maxAttempts : "";
    const single = decision.kind === "fail" ? held.message.seq : "";
    const key = `${decision.kind} ${limit} ${single} ${held.lease.owner}`;
    const batch = batches.get(key);
    if (batch === undefined) batches.set(key, [held]);
    else batch.push(held);
  }
  return [...batches.values()].map((held): SettleCall<Message, Tx> => {
    const { decision, lease } = held[0]!;
    const messages = held.map(({ message }) => message);
    const call = (count: SettleCall<Message, Tx>["count"], send: SettleCall<Message, Tx>["send"]) => ({
      messages: held,
      count,
      send,
    });
    if (decision!.kind === "ack")
      return call("acked", (options) => store.ack(lease.owner, messages, options));
    if (decision!.kind === "release")
      return call("released", (options) => store.release(lease.owner, messages, options));
    if (decision!.kind === "fail") {
      const { error } = decision as Extract<Decision, { kind: "fail" }>;
      return call("failed", (options) => store.fail(lease.owner, messages, error, options));
    }
    return call("abandoned", abandoning(store, lease.owner, held));
  });
}

const abandoning =
  <Message extends QueueMessage, Tx>(
    store: RunState<Message, Tx>["store"],
    owner: OwnerToken,
    held: readonly HeldMessage<Message, Tx>[],
  ) =>
  (options: CallOptions): Promise<Settlement<unknown>> => {
    const items = held.map(({ message, decision }) => {
      const { delayMs, error, costsAttempt } = decision as Abandon;
      return { message, delayMs, error, costsAttempt };
    });
    const { maxAttempts } = held[0]!.decision as Abandon;
    return store.abandon(owner, items, { ...options, maxAttempts });
  };
