import type { Budget } from "../base/budget.js";
import { withFields, writes } from "../base/logger.js";
import type { QueueMessage } from "../queue/message.js";
import type { DispatchStore } from "../queue/work-store.js";
import { changes } from "./changes.js";
import type { RunOptions } from "./dispatch-run.js";
import type { DispatcherConfig } from "./dispatcher.js";
import { type DurationEstimate, durationEstimate } from "./duration-estimate.js";
import { defaultPollIntervals, pollSchedule } from "./poll-schedule.js";
import type { RunState } from "./run-state.js";
import { runTime } from "./run-time.js";
import { topicRecords } from "./topic-records.js";

/** Until a call of the store has been measured it is expected to take this long, which makes a reserve of half a second. */
const expectedStoreCallMs = 75;

/** The state of a run that has claimed nothing yet. */
export function newRun<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
  budget: Budget,
  config: DispatcherConfig<Message, Tx>,
  options: RunOptions,
): RunState<Message, Tx> {
  return {
    store,
    config,
    budget,
    time: runTime(budget, config.reserveMs, storeCallsOf(store, config.storeCalls), config.lateness),
    logger: withFields(config.logger, { store: store.id }),
    topics: topicRecords(config, options.defaultTimeoutMs ?? Number.POSITIVE_INFINITY),
    polls: pollSchedule(options.poll ?? defaultPollIntervals),
    changed: changes(),
    counts: { claimed: 0, handled: 0, acked: 0, abandoned: 0, failed: 0, released: 0, lost: 0, stuck: 0 },
    logsEach: writes(config.logger, "info"),
    fieldsOf: (message) => ({ topic: message.topic, ...config.describe(message), attempt: message.attempt }),
    onStuck: options.onStuck,
    onFault: options.onFault,
    waiting: [],
    running: new Map(),
    settling: new Map(),
    unsent: [],
    busyPartitions: new Set(),
    givenUp: new Map(),
    uncounted: new Set(),
    lastStartAt: Number.NEGATIVE_INFINITY,
    isClaiming: false,
    isSettling: false,
    nextRenewalAt: Number.POSITIVE_INFINITY,
    claimAbort: new AbortController(),
    isDrained: false,
    claimableEvents: 0,
    hasUnfinished: false,
    suspectNotStarted: false,
    fault: undefined,
  };
}

/** How long this store's calls took, over all runs of this dispatcher. */
function storeCallsOf(store: object, known: WeakMap<object, DurationEstimate>): DurationEstimate {
  const storeCalls = known.get(store) ?? durationEstimate(expectedStoreCallMs);
  known.set(store, storeCalls);
  return storeCalls;
}
