import { safeReason } from "../base/safe-reason.js";
import { sleep } from "../base/wait.js";
import type { QueueMessage } from "../queue/message.js";
import { withDeadline } from "../queue/store-deadline.js";
import type { CallOptions, Settlement } from "../queue/work-store.js";
import { countMessages, type MessageCount } from "./count-messages.js";
import {
  type HeldMessage,
  letGo,
  type RunCounts,
  type RunState,
  renewApart,
  toSettling,
} from "./run-state.js";

/** One call of the store, which settles messages of one claim. */
export interface SettleCall<Message, Tx> {
  readonly messages: readonly HeldMessage<Message, Tx>[];
  readonly count: keyof Pick<RunCounts, "acked" | "released" | "abandoned" | "failed">;
  readonly send: (options: CallOptions) => Promise<Settlement<unknown>>;
}

/** Tries at one call before the next group of messages is settled. The store retries transient faults itself. */
const triesAtOnce = 3;
const firstWaitMs = 100;
const longestWaitMs = 2_000;

/**
 * Settles the messages of one call. If that fails, for example during a fail-over, it is tried again for as long as a lease
 * lasts: the handlers have done their work. The caller does not wait for that, so other settlements go on.
 */
export async function sendSettlement<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  call: SettleCall<Message, Tx>,
): Promise<void> {
  renewApart(run, call.messages);
  const leaveAt = performance.now() + call.messages[0]!.lease.leaseMs;
  for (let tries = 1; tries <= triesAtOnce; tries++) if (await isSent(run, call)) return;
  void sendLater(run, call, leaveAt);
}

async function sendLater<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  call: SettleCall<Message, Tx>,
  leaveAt: number,
): Promise<void> {
  let waitMs = firstWaitMs;
  for (;;) {
    const leftMs = Math.min(leaveAt - performance.now(), run.time.untilReturnMs());
    if (leftMs <= 0) return leaveToLease(run, call);
    await sleep(Math.min(waitMs, leftMs));
    if (await isSent(run, call)) return;
    waitMs = Math.min(2 * waitMs, longestWaitMs);
  }
}

async function isSent<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  call: SettleCall<Message, Tx>,
): Promise<boolean> {
  try {
    const startedAt = performance.now();
    const { lost, dead } = await withDeadline(run.config.settleTimeoutMs, "A settlement", (signal) =>
      call.send({ signal }),
    );
    run.time.storeCallTook(performance.now() - startedAt);
    confirm(run, call, new Set(lost), dead.length);
    return true;
  } catch (error) {
    const messages = call.messages.length;
    run.logger.error("settling failed", { call: call.count, messages, error: safeReason(error) });
    return false;
  }
}

/** The messages are claimed again when their lease has expired. */
function leaveToLease<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  { messages }: SettleCall<Message, Tx>,
): void {
  for (const held of messages) {
    if (held.later === undefined) letGo(run, held);
    else settleLater(run, held, held.later);
  }
}

function confirm<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  { messages, count }: SettleCall<Message, Tx>,
  lost: ReadonlySet<unknown>,
  dead: number,
): void {
  let settled = 0;
  let notHeld = 0;
  for (const held of messages) {
    const { later } = held;
    const isLost = lost.has(held.message);
    if (isLost && later !== undefined) {
      settleLater(run, held, later);
      continue;
    }
    run.counts[isLost ? "lost" : count]++;
    if (isLost) notHeld++;
    else settled++;
    letGo(run, held);
    // It was claimed after this settlement, so it is due again: it was abandoned or released.
    if (later !== undefined) run.waiting.push(later);
  }
  countMessages(run, "oncebox.lease.lost", notHeld);
  // A message that became dead is not retried. The store counts it: it also knows those that no dispatcher made dead.
  if (count !== "failed") countMessages(run, settledAs[count], settled - dead);
}

const settledAs: Readonly<Record<"acked" | "abandoned" | "released", MessageCount>> = {
  acked: "oncebox.acked",
  abandoned: "oncebox.retried",
  released: "oncebox.released",
};

/** The message was claimed again before this settlement reached the database. It is settled under that lease instead. */
function settleLater<Message extends QueueMessage, Tx>(
  run: RunState<Message, Tx>,
  held: HeldMessage<Message, Tx>,
  later: HeldMessage<Message, Tx>,
): void {
  const decision = held.decision!;
  // The expiry of the first lease has counted the attempt.
  toSettling(run, later, decision.kind === "abandon" ? { ...decision, costsAttempt: false } : decision);
}
