import { ArgumentRangeError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { Activity, ActivityBucket, ActivityOptions } from "../queue/operator-reads.js";
import type { Operators } from "../queue/operators.js";
import type { CallOptions } from "../queue/work-store.js";
import { activityLimits } from "../sql/defaults.js";
import type { OperatorReadStatements } from "../sql/dialect.js";
import type { SqlParams, SqlStatement } from "../sql/driver.js";
import type { QueueParts } from "../sql/queue-parts.js";
import { rowNumber } from "../sql/row-number.js";

const dayMs = 86_400_000;

/** `activity`: no index has the times, so it reads the newest messages, window by window, up to a bound. */
export function activityOperation<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  { db, runner }: QueueParts<Key, Message, State>,
  statements: OperatorReadStatements,
): Pick<Operators<Key>, "activity"> {
  /** Counts by bucket. `isLast` ends the walk before the bound: nothing of interest can come after such a window. */
  const walk = async (
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
    async activity(options = {}) {
      const { sinceMs, buckets, signal } = checked(options);
      const call = { signal };
      const { mostUnfinished } = activityLimits;
      const [row] = await runner.execute(statements.unfinished, { limit: mostUnfinished }, call);
      const now = db.dialect.fromTime(row!.now).getTime();
      const bucketMs = sinceMs / buckets;
      const params = { since: db.dialect.toTime(new Date(now - sinceMs)), bucket_ms: bucketMs };
      const read = (statement: SqlStatement, isLast: (inRange: number) => boolean = () => false) =>
        walk(statement, params, buckets, isLast, call);
      // Numbers follow the arrival, so before a window of older messages there are only older ones.
      const enqueued = await read(statements.enqueuedBefore, (inRange) => inRange === 0);
      const done = await read(statements.doneBefore);
      const dead = await read(statements.diedBefore);
      const unfinished = Number(row!.count);
      const parts = [enqueued, done, dead];
      return {
        buckets: bucketsOf(now - sinceMs, bucketMs, unfinished, {
          enqueued: enqueued.counts,
          done: done.counts,
          dead: dead.counts,
        }),
        truncated: unfinished >= mostUnfinished || parts.some(({ truncated }) => truncated),
      } satisfies Activity;
    },
  };
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

function checked(options: ActivityOptions) {
  refuseUnknown(options, ["sinceMs", "buckets", "signal"], "activity");
  const { sinceMs = dayMs, buckets = activityLimits.buckets, signal } = options;
  requireDuration(sinceMs, "sinceMs");
  if (sinceMs > activityLimits.sinceMs)
    throw new ArgumentRangeError(`sinceMs must be at most ${activityLimits.sinceMs} ms, not ${sinceMs}.`);
  const { mostBuckets } = activityLimits;
  if (!Number.isInteger(buckets) || buckets < 1 || buckets > mostBuckets || buckets > sinceMs)
    throw new ArgumentRangeError(
      `buckets must be a whole number from 1 to ${mostBuckets}, each of a millisecond or more, not ${String(buckets)}.`,
    );
  return { sinceMs, buckets, signal };
}
