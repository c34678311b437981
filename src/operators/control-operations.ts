import { yieldToEventLoop } from "../base/wait.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { nameProblem, refuseUnknown } from "../queue/arguments.js";
import type { Control, ControlScope, ControlTarget, Limit } from "../queue/controls.js";
import type { OperatorOptions } from "../queue/dead-letters.js";
import type { QueueMessage } from "../queue/message.js";
import type { Operators } from "../queue/operators.js";
import type { CallOptions } from "../queue/work-store.js";
import { applyControls } from "../sql/apply-controls.js";
import type { OperatorReadStatements, OperatorStatements } from "../sql/dialect.js";
import type { SqlParams, SqlRow } from "../sql/driver.js";
import { isTrue } from "../sql/is-true.js";
import type { QueueParts } from "../sql/queue-parts.js";
import { requireOperator } from "./operation-record.js";

type Names = "pause" | "resume" | "limit" | "controls";

/** More than any dispatcher claims. */
const highestPerSecond = 1_000_000;
/** The claims return what is left after it. */
const longestReturningMs = 3_000;
/** One message in a day. */
const lowestPerSecond = 1 / 86_400;

/** Pauses and limits. The claims keep to them: see claim-operation.ts. */
export function controlOperations<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  parts: QueueParts<Key, Message, State>,
  statements: Pick<OperatorStatements, "putControl" | "endControl"> &
    Pick<OperatorReadStatements, "controls">,
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

  const log = (what: string, by: string, { scope, name }: Target, more: object = {}): void =>
    options.logger.info(what, { scope, ...(scope === "queue" ? {} : { name }), by, ...more });

  const put = async (params: SqlParams, { by, signal }: OperatorOptions): Promise<Control> => {
    const [row] = await runner.execute(statements.putControl, { ...params, who: by }, { signal });
    return controlOf(row!);
  };

  const end = async (params: SqlParams, { by, signal }: OperatorOptions): Promise<Control | undefined> => {
    const [row] = await runner.execute(statements.endControl, { ...params, who: by }, { signal });
    return row && controlOf(row);
  };

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
      const params = targetParams(target, kind, "pause");
      const control = await put({ ...params, paused: true, per_second: null }, call);
      log("pause", call.by, params);
      return control;
    },

    async resume(target, call) {
      requireOperator(call, "resume");
      const params = targetParams(target, kind, "resume");
      const ended = await end({ ...params, paused: true }, call);
      if (ended !== undefined) log("resume", call.by, params);
      const returned = await returnParked({ signal: call.signal }); // also when an earlier call was interrupted
      return { wasPaused: ended !== undefined, returned };
    },

    async limit(limit, call) {
      requireOperator(call, "limit");
      const { target, perSecond } = checkedLimit(limit);
      const params = targetParams(target, kind, "limit");
      log("limit", call.by, params, { perSecond });
      if (perSecond !== null) return put({ ...params, paused: null, per_second: perSecond }, call);
      const ended = await end({ ...params, paused: false }, call);
      await returnParked({ signal: call.signal });
      return ended?.paused ? ended : null;
    },

    async controls(call = {}) {
      return (await runner.execute(statements.controls, {}, call)).map(controlOf);
    },
  };
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
