import { yieldToEventLoop } from "../base/timers.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { nameProblem, refuseUnknown } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type {
  Control,
  ControlScope,
  ControlTarget,
  Limit,
  OperatorOptions,
  Operators,
} from "../queue/operators.js";
import type { CallOptions } from "../queue/work-store.js";
import type { OperatorReadStatements, OperatorStatements } from "../sql/dialect.js";
import { isTrue, type SqlParams, type SqlRow, type SqlStatement } from "../sql/driver.js";
import { applyControls } from "../sql/leases.js";
import type { QueueParts } from "../sql/store.js";
import { type OperationRecords, recordedOnce, requireOperator } from "./operations.js";

type Names = "pause" | "resume" | "limit" | "controls";

/** More than any dispatcher claims. */
const highestPerSecond = 1_000_000;
/** The claims return what is left after it. */
const longestReturningMs = 3_000;
/** One message in a day. */
const lowestPerSecond = 1 / 86_400;

/** Pauses and limits. The claims keep to them: see `applyControls`. */
export function controlOperations<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  parts: QueueParts<Key, Message, State>,
  statements: Pick<OperatorStatements, "putControl" | "endControl"> &
    Pick<OperatorReadStatements, "controls">,
  records: OperationRecords,
): Pick<Operators<Key>, Names> {
  const { kind, db, runner, options } = parts;

  const controlOf = (row: SqlRow): Control => ({
    scope: row.scope as ControlScope,
    name: row.scope === "queue" ? null : (row.name as string),
    paused: isTrue(row.paused),
    perSecond: row.per_second === null ? null : Number(row.per_second),
    parked: Number(row.parked),
    by: row.who as string,
    at: db.dialect.fromTime(row.changed_at),
  });

  /** Changes a control and records it, in one transaction. What changed nothing is neither recorded nor logged. */
  const change = async (
    { action, target, more = {} }: Change,
    statement: SqlStatement,
    params: SqlParams,
    { by, signal }: OperatorOptions,
  ): Promise<Control | undefined> => {
    const changed = await recordedOnce(runner, records, { signal }, async (tx, id) => {
      const [row] = await runner.executeIn(tx, statement, { ...target, ...params, who: by }, { signal });
      if (row === undefined) return undefined;
      const filter = { ...(target.scope === "queue" ? {} : { [target.scope]: target.name }), ...more };
      await records.addEnded(tx, { id, action, by, filter, matched: 0, done: 0 }, { signal });
      return controlOf(row);
    });
    const { scope, name } = target;
    if (changed !== undefined)
      options.logger.info(action, { scope, ...(scope === "queue" ? {} : { name }), by, ...more });
    return changed;
  };

  const put = async (what: Change, params: SqlParams, call: OperatorOptions): Promise<Control> =>
    (await change(what, statements.putControl, params, call))!;

  const end = (what: Change, params: SqlParams, call: OperatorOptions): Promise<Control | undefined> =>
    change(what, statements.endControl, params, call);

  /** Returns what ended controls have parked, batch by batch. Where this is interrupted, claims go on with it. */
  const returnParked = async (call: CallOptions): Promise<number> => {
    const stopAt = performance.now() + longestReturningMs;
    for (let total = 0; ; ) {
      const { returned, ending } = await applyControls(parts, null, [], 0, call);
      total += returned;
      if (ending === 0 || performance.now() > stopAt) return total;
      await yieldToEventLoop();
    }
  };

  return {
    async pause(target, call) {
      requireOperator(call, "pause");
      const what = { action: "pause", target: targetParams(target, kind, "pause") } as const;
      return put(what, { paused: true, per_second: null }, call);
    },

    async resume(target, call) {
      requireOperator(call, "resume");
      const what = { action: "resume", target: targetParams(target, kind, "resume") } as const;
      const ended = await end(what, { paused: true }, call);
      const returned = await returnParked({ signal: call.signal }); // also when an earlier call was interrupted
      return { wasPaused: ended !== undefined, returned };
    },

    async limit(limit, call) {
      requireOperator(call, "limit");
      const { target, perSecond } = checkedLimit(limit);
      const what: Change = {
        action: "limit",
        target: targetParams(target, kind, "limit"),
        more: { perSecond },
      };
      if (perSecond !== null) return put(what, { paused: null, per_second: perSecond }, call);
      const ended = await end(what, { paused: false }, call);
      await returnParked({ signal: call.signal });
      return ended?.paused ? ended : null;
    },

    async controls(call = {}) {
      return (await runner.execute(statements.controls, {}, call)).map(controlOf);
    },
  };
}

/** What is recorded of a change. */
interface Change {
  readonly action: "pause" | "resume" | "limit";
  readonly target: Target;
  readonly more?: object;
}

interface Target {
  readonly scope: ControlScope;
  readonly name: string;
}

function targetParams(target: ControlTarget, kind: "inbox" | "outbox", what: string): Target {
  if (target === "all") return { scope: "queue", name: "" };
  const form = 'the target must be "all", { topic } or { source }.';
  if (typeof target !== "object" || target === null) throw new InvalidArgumentError(`${what}: ${form}`);
  refuseUnknown(target, ["topic", "source"], what);
  const { topic, source } = target as { readonly topic?: string; readonly source?: string };
  if ((topic === undefined) === (source === undefined)) throw new InvalidArgumentError(`${what}: ${form}`);
  const scope = topic === undefined ? "source" : "topic";
  if (scope === "source" && kind === "outbox")
    throw new InvalidArgumentError(`${what}: the messages of an outbox have no source. Name a topic.`);
  const name = topic ?? source;
  const problem = nameProblem(name);
  if (problem !== undefined) throw new InvalidArgumentError(`${what}: ${scope} ${problem}`);
  return { scope, name: name! };
}

function checkedLimit(limit: Limit): { readonly target: ControlTarget; readonly perSecond: number | null } {
  refuseUnknown(limit, ["topic", "source", "perSecond"], "limit");
  const { topic, source, perSecond } = limit;
  const isRate =
    typeof perSecond === "number" && perSecond >= lowestPerSecond && perSecond <= highestPerSecond;
  if (perSecond !== null && !isRate)
    throw new ArgumentRangeError(
      `limit: perSecond must be a number from ${lowestPerSecond.toPrecision(2)} (one in a day) to ${highestPerSecond}, or null for no limit, not ${String(perSecond)}.`,
    );
  if (topic === undefined && source === undefined) return { target: "all", perSecond };
  return {
    target: {
      ...(topic === undefined ? {} : { topic }),
      ...(source === undefined ? {} : { source }),
    } as ControlTarget,
    perSecond,
  };
}
