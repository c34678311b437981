import { omitUndefined } from "../base/defined.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { nameProblem, refuseUnknown } from "../queue/arguments.js";
import type {
  Control,
  ControlScope,
  Controls,
  ControlTarget,
  Limit,
  OperatorOptions,
} from "../queue/operators.js";
import { isTrue, type SqlParams, type SqlRow } from "../sql/driver.js";
import { type OperatedQueue, OperationRecords, requireOperator } from "./dead-letters.js";

/** Pauses and limits. They are conditions of every claim: see docs/decisions/0020. */
export function controlOperations(operated: OperatedQueue): Controls {
  const { parts, statements } = operated;
  const { kind, db, runner, options } = parts;
  const records = new OperationRecords(operated);

  const controlOf = (row: SqlRow): Control => ({
    scope: row.scope as ControlScope,
    name: row.scope === "queue" ? null : (row.name as string),
    paused: isTrue(row.paused),
    perSecond: row.per_second === null ? null : Number(row.per_second),
    waiting: Number(row.waiting),
    by: row.who as string,
    at: db.dialect.fromTime(row.changed_at),
  });

  /** Changes a control and records it, in one transaction. A change of nothing is neither recorded nor logged. */
  const change = async (
    statement: "putControl" | "endControl",
    params: SqlParams,
    { action, target: { scope, name }, more = {} }: Change,
    { by, signal }: OperatorOptions,
  ): Promise<Control | undefined> => {
    const changed = await records.once({ signal }, async (tx, id) => {
      const [row] = await runner.executeIn(
        tx,
        statements[statement],
        { scope, name, ...params, who: by },
        { signal },
      );
      if (row === undefined) return undefined;
      const filter = { ...(scope === "queue" ? {} : { [scope]: name }), ...more };
      await records.addEnded(tx, { id, action, by, filter, matched: 0, done: 0 }, { signal });
      return controlOf(row);
    });
    if (changed !== undefined)
      options.logger.info(action, { scope, ...(scope === "queue" ? {} : { name }), by, ...more });
    return changed;
  };

  return {
    async pause(given, call) {
      requireOperator(call, "pause");
      const target = targetParams(given, kind, "pause");
      const params = { paused: true, per_second: null };
      return (await change("putControl", params, { action: "pause", target }, call))!;
    },

    async resume(given, call) {
      requireOperator(call, "resume");
      const target = targetParams(given, kind, "resume");
      const ended = await change("endControl", { paused: true }, { action: "resume", target }, call);
      return { wasPaused: ended !== undefined };
    },

    async limit(limit, call) {
      requireOperator(call, "limit");
      const { target: given, perSecond } = checkedLimit(limit);
      const target = targetParams(given, kind, "limit");
      const limited = { action: "limit", target, more: { perSecond } } as const;
      if (perSecond !== null)
        return (await change("putControl", { paused: null, per_second: perSecond }, limited, call))!;
      const ended = await change("endControl", { paused: false }, limited, call);
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

/** More than any dispatcher claims. */
const highestPerSecond = 1_000_000;
/** One message in a day. */
const lowestPerSecond = 1 / 86_400;

function checkedLimit(limit: Limit): { readonly target: ControlTarget; readonly perSecond: number | null } {
  refuseUnknown(limit, ["topic", "source", "perSecond"], "limit");
  const { topic, source, perSecond } = limit;
  const isRate =
    typeof perSecond === "number" && perSecond >= lowestPerSecond && perSecond <= highestPerSecond;
  if (perSecond !== null && !isRate)
    throw new ArgumentRangeError(
      `limit: perSecond must be a number from ${lowestPerSecond.toPrecision(2)} (one in a day) to ${highestPerSecond}, or null for no limit, not ${String(perSecond)}.`,
    );
  const isAll = topic === undefined && source === undefined;
  return { target: isAll ? "all" : (omitUndefined({ topic, source }) as ControlTarget), perSecond };
}
