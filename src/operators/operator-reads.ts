import { isGuid } from "../base/uuid.js";
import { ArgumentRangeError } from "../errors.js";
import { refuseUnknown, requireBatchSize, requireDuration, requireName } from "../queue/arguments.js";
import type { InboxKey, OutboxKey, Resolution } from "../queue/message.js";
import type {
  ActivityBucket,
  ActivityOptions,
  BlockedPartition,
  CorrelatedMessage,
  OperatorReads,
  Operators,
} from "../queue/operators.js";
import type { AnyKey, CallOptions } from "../queue/work-store.js";
import { status } from "../sql/dialect.js";
import { isTrue, rowNumber, type SqlParams, type SqlRow, type SqlStatement } from "../sql/driver.js";
import { deadConditions, deadParams } from "../sql/reads.js";
import { activityLimits, defaults } from "../sql/store-options.js";
import type { OperatedQueue } from "./dead-letters.js";

type Names = "deadGroups" | "countDead" | "blockedPartitions" | "byCorrelation" | "activity" | "unhandled";

/** What operators read: dead messages as a whole, blocked partition keys, the messages of one event, activity, unhandled topics. */
export function operatorReads({
  parts: { db, shape, runner },
  statements,
}: OperatedQueue): Pick<Operators<AnyKey>, Names> {
  const time = (value: unknown): Date | null =>
    value === null || value === undefined ? null : db.dialect.fromTime(value);

  /** Reads the newest messages, window by window, and counts them by bucket. `isLast` ends the walk before its bound. */
  const countByBucket = async (
    statement: SqlStatement,
    params: SqlParams,
    length: number,
    isLast: (inRange: number) => boolean,
    call: CallOptions,
  ): Promise<{ readonly counts: readonly number[]; readonly truncated: boolean }> => {
    const counts = new Array<number>(length).fill(0);
    const { window, most } = activityLimits;
    let before = Number.MAX_SAFE_INTEGER;
    let inRange = 0;
    for (let read = 0; read < most; read += window) {
      const rows = await runner.execute(statement, { ...params, before_seq: before, limit: window }, call);
      let scanned = 0;
      inRange = 0;
      for (const row of rows) {
        const [bucket, count] = [Number(row.bucket), Number(row.count)];
        scanned += count;
        before = Math.min(before, rowNumber(row.first_seq));
        if (bucket < 0) continue;
        inRange += count;
        counts[Math.min(bucket, length - 1)]! += count; // what happened since `now` was read is in the last one
      }
      if (scanned < window || isLast(inRange)) return { counts, truncated: false };
    }
    return { counts, truncated: inRange > 0 };
  };

  return {
    async deadGroups({ limit = defaults.listLimit, ...filter } = {}) {
      requireBatchSize(limit, "limit");
      deadConditions(filter);
      const params = { ...deadParams(filter, null), limit };
      const rows = await runner.execute(statements.deadGroups, params, filter);
      return rows.map((row) => ({
        errorGroup: row.error_group as string,
        count: Number(row.count),
        firstAt: db.dialect.fromTime(row.first_at),
        lastAt: db.dialect.fromTime(row.last_at),
        example: shape.keyOf(row),
        error: row.last_error as string | null,
      }));
    },

    async countDead(filter = {}) {
      deadConditions(filter);
      const [row] = await runner.execute(statements.countDead, deadParams(filter, null), filter);
      return Number(row!.count);
    },

    async blockedPartitions(options = {}) {
      refuseUnknown(options, ["limit", "signal"], "blockedPartitions");
      const { limit = defaults.listLimit, signal } = options;
      requireBatchSize(limit, "limit");
      const rows = await runner.execute(statements.blockedPartitions, { limit }, { signal });
      return rows.map((row) => {
        const reason = blockedReason(row);
        const diedAt = reason === "dead" ? time(row.died_at) : null;
        return {
          partitionKey: row.partition_key as string,
          head: shape.keyOf(row),
          topic: row.topic as string,
          reason,
          attempt: Number(row.attempt),
          error: row.last_error as string | null,
          nextAttemptAt: reason === "dead" ? null : time(row.next_attempt_at),
          waiting: Number(row.waiting),
          since: diedAt ?? time(row.waiting_since)!,
        };
      });
    },

    async byCorrelation(id, options = {}) {
      refuseUnknown(options, ["limit", "signal"], "byCorrelation");
      requireName(id, "id");
      const { limit = defaults.listLimit, signal } = options;
      requireBatchSize(limit, "limit");
      const params = { correlation_id: id, id: isGuid(id) ? id.toLowerCase() : null, limit };
      const rows = await runner.execute(statements.byCorrelation, params, { signal });
      return rows.map((row) => {
        const doneAt = time(row.processed_at);
        const resolution = (row.resolution as Resolution | null | undefined) ?? null;
        return {
          key: shape.keyOf(row),
          topic: row.topic as string,
          state: shape.stateOf({ status: Number(row.status), leased: isTrue(row.leased) }),
          correlationId: row.correlation_id as string | null,
          messageId: shape.messageIdOf(row),
          partitionKey: row.partition_key as string | null,
          attempt: Number(row.attempt),
          lastError: row.last_error as string | null,
          enqueuedAt: time(row.enqueued_at)!,
          firstAttemptAt: time(row.first_failed_at) ?? (resolution === null ? doneAt : null),
          doneAt,
          diedAt: Number(row.status) === status.dead ? time(row.died_at) : null,
          resolution,
        };
      });
    },

    async unhandled(options = {}) {
      refuseUnknown(options, ["limit", "signal"], "unhandled");
      const { limit = defaults.listLimit, signal } = options;
      requireBatchSize(limit, "limit");
      const rows = await runner.execute(statements.unhandled, { limit }, { signal });
      return rows.map((row) => ({
        topic: row.topic as string,
        messages: Number(row.messages),
        lastSeenAt: time(row.last_seen_at)!,
      }));
    },

    /** No index has the times, so it reads up to a bound. */
    async activity(options = {}) {
      const { sinceMs, buckets, signal } = checkedActivityOptions(options);
      const { maxUnfinished } = activityLimits;
      const [row] = await runner.execute(statements.unfinished, { limit: maxUnfinished }, { signal });
      const now = db.dialect.fromTime(row!.now).getTime();
      const bucketMs = sinceMs / buckets;
      const params = { since: db.dialect.toTime(new Date(now - sinceMs)), bucket_ms: bucketMs };
      const read = (statement: SqlStatement, isLast: (inRange: number) => boolean = () => false) =>
        countByBucket(statement, params, buckets, isLast, { signal });
      // Row numbers follow the arrival: before a window with nothing in range there is nothing in range.
      const enqueued = await read(statements.enqueuedBefore, (inRange) => inRange === 0);
      const done = await read(statements.doneBefore);
      const dead = await read(statements.diedBefore);
      const unfinished = Number(row!.count);
      const counts = { enqueued: enqueued.counts, done: done.counts, dead: dead.counts };
      return {
        buckets: bucketsOf(now - sinceMs, bucketMs, unfinished, counts),
        truncated: unfinished >= maxUnfinished || [enqueued, done, dead].some(({ truncated }) => truncated),
      };
    },
  };
}

function blockedReason(row: SqlRow): BlockedPartition<unknown>["reason"] {
  if (Number(row.status) === status.dead) return "dead";
  if (isTrue(row.leased)) return "leased";
  if (isTrue(row.paused)) return "paused";
  return Number(row.attempt) > 0 ? "retrying" : "scheduled";
}

/** From the present number backwards: before a bucket there were as many as after it, without its own, and with those it finished. */
function bucketsOf(
  since: number,
  bucketMs: number,
  now: number,
  { enqueued, done, dead }: Readonly<Record<"enqueued" | "done" | "dead", readonly number[]>>,
): readonly ActivityBucket[] {
  const made: ActivityBucket[] = [];
  let unfinished = now;
  for (let index = enqueued.length - 1; index >= 0; index--) {
    const counts = { enqueued: enqueued[index]!, done: done[index]!, dead: dead[index]! };
    const [from, until] = [index, index + 1].map((at) => new Date(Math.round(since + at * bucketMs)));
    made.push({ from: from!, until: until!, ...counts, unfinished });
    unfinished = Math.max(0, unfinished - counts.enqueued + counts.done + counts.dead);
  }
  return made.reverse();
}

const dayMs = 86_400_000;

function checkedActivityOptions(options: ActivityOptions) {
  refuseUnknown(options, ["sinceMs", "buckets", "signal"], "activity");
  const { sinceMs = dayMs, buckets = activityLimits.buckets, signal } = options;
  requireDuration(sinceMs, "sinceMs");
  if (sinceMs > activityLimits.sinceMs)
    throw new ArgumentRangeError(`sinceMs must be at most ${activityLimits.sinceMs} ms, not ${sinceMs}.`);
  const { maxBuckets } = activityLimits;
  if (!Number.isInteger(buckets) || buckets < 1 || buckets > maxBuckets || buckets > sinceMs)
    throw new ArgumentRangeError(
      `buckets must be a whole number from 1 to ${maxBuckets}, each of a millisecond or more, not ${String(buckets)}.`,
    );
  return { sinceMs, buckets, signal };
}

/** One message in the trace of an event. */
export type TraceStep =
  | ({ readonly queue: "inbox" } & CorrelatedMessage<InboxKey>)
  | ({ readonly queue: "outbox" } & CorrelatedMessage<OutboxKey>);

/** The stores in which the trace of an event is looked for. */
export interface TraceStores {
  readonly inbox: Pick<OperatorReads<InboxKey>, "byCorrelation">;
  readonly outbox: Pick<OperatorReads<OutboxKey>, "byCorrelation">;
}

/** Correlation ids that are followed: those of the messages that the given id finds. */
const maxIds = 10;

/**
 * The trace of one event: the messages of inbox and outbox that belong to it, in the order in which they were enqueued. `id` is a
 * correlation id, the message id of an inbox message, or the id of an outbox message. At most 100 messages of each queue.
 *
 * @example
 * for (const { queue, topic, state, doneAt } of await messageTrace({ inbox: operatorsOf(inbox), outbox: operatorsOf(outbox) }, "evt_1")) console.log(queue, topic, state, doneAt);
 */
export async function messageTrace(
  { inbox, outbox }: TraceStores,
  id: string,
  call: CallOptions = {},
): Promise<readonly TraceStep[]> {
  const found = new Map<string, TraceStep>();
  const lookUp = async (one: string): Promise<void> => {
    for (const message of await inbox.byCorrelation(one, call))
      found.set(JSON.stringify(message.key), { queue: "inbox", ...message });
    for (const message of await outbox.byCorrelation(one, call))
      found.set(JSON.stringify(message.key), { queue: "outbox", ...message });
  };
  await lookUp(id);
  for (const other of relatedTo(id, [...found.values()])) await lookUp(other);
  return [...found.values()].sort(byTime).slice(0, maxSteps);
}

/** A message that was found leads to those that share its correlation id, or have the id of the received one as theirs. */
function relatedTo(id: string, steps: readonly TraceStep[]): readonly string[] {
  const received = steps.flatMap((step) => (step.queue === "inbox" ? [step.messageId] : []));
  const related = new Set([...steps.map(({ correlationId }) => correlationId), ...received]);
  return [...related].filter((one) => one !== null && one !== id).slice(0, maxIds) as string[];
}

const maxSteps = 200;

/** Of two that were enqueued within the same millisecond, the received one is the cause. */
const byTime = (a: TraceStep, b: TraceStep): number =>
  a.enqueuedAt.getTime() - b.enqueuedAt.getTime() || a.queue.localeCompare(b.queue);
