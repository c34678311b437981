import { keyText } from "../admin/page/key-text.js";
import { InvalidArgumentError } from "../errors.js";
import { finishOperation } from "../operators/bulk-operations.js";
import type { OperatedStores } from "../operators/operators-of.js";
import type { BulkAction, Operation } from "../queue/operators.js";
import type { AnyKey, QueueKind } from "../queue/work-store.js";
import { type CommandInput, exitCodes, type Values } from "./command.js";
import { withStores } from "./load-app.js";
import {
  type Columns,
  filterOf,
  operatorName,
  pageSize,
  print,
  printTable,
  progressBar,
  queuesOf,
  quoted,
  text,
} from "./terminal.js";

export const pastOf = { replay: "replayed", discard: "discarded", archive: "archived" } as const;
export const sentenceOf = { replay: "Replayed", discard: "Discarded", archive: "Archived" } as const;
const progressOf = { replay: "replaying", discard: "discarding", archive: "archiving" } as const;

/** Replays, discards or archives the dead messages that match. */
export const changeMany = (
  change: BulkAction,
  input: CommandInput,
  ratePerSecond: number | undefined,
): Promise<number> =>
  withStores(input, async (stores) => {
    const { values, terminal } = input;
    const { signal } = terminal;
    const filter = filterOf(values);
    const matched = new Map<QueueKind, number>();
    for (const queue of queuesOf(values))
      matched.set(queue, await stores[queue].countDead({ ...filter, signal }));
    const total = [...matched.values()].reduce((sum, one) => sum + one, 0);
    if (total === 0) terminal.err("No dead message matches.");
    if (values["dry-run"]) {
      print(input, { matched: total, [pastOf[change]]: 0 }, `${total} would be ${pastOf[change]}.`);
      return exitCodes.ok;
    }
    // All are recorded before the first message is changed: what dies meanwhile is not part of them.
    const begun: Begun[] = [];
    for (const queue of queuesOf(values)) {
      if (matched.get(queue) === 0) continue;
      const options = { by: operatorName(values), signal };
      const operation = await stores[queue].startOperation(change, filter, options);
      terminal.err(`Operation ${operation.id}: ${operation.matched} in the ${queue}.`);
      begun.push({ queue, operation });
    }
    return finish(change, input, stores, begun, { ratePerSecond });
  });

/** Goes on with an operation that was interrupted. */
export const resumeChange = (
  change: BulkAction,
  input: CommandInput,
  ratePerSecond: number | undefined,
): Promise<number> =>
  withStores(input, async (stores) => {
    const { values, terminal } = input;
    const id = text(values, "resume")!.toLowerCase();
    for (const queue of queuesOf(values)) {
      const operation = await stores[queue].operation(id, { signal: terminal.signal });
      if (operation === null) continue;
      if (operation.action !== change)
        throw new InvalidArgumentError(
          `The operation ${id} is of the action ${operation.action}, not ${change}.`,
        );
      const options = { ratePerSecond, resumedBy: operatorName(values) };
      return finish(change, input, stores, [{ queue, operation }], options);
    }
    throw new InvalidArgumentError(`There is no operation "${id}". \`oncebox dead operations\` shows them.`);
  });

interface Begun {
  readonly queue: QueueKind;
  readonly operation: Operation;
}

interface FinishOptions {
  readonly ratePerSecond: number | undefined;
  /** Who goes on with operations that were interrupted. */
  readonly resumedBy?: string;
}

/** Does what is left of operations, and says how many messages they changed. */
async function finish(
  change: BulkAction,
  input: CommandInput,
  stores: OperatedStores,
  begun: readonly Begun[],
  options: FinishOptions,
): Promise<number> {
  const { signal, redraw } = input.terminal;
  const latest = new Map(begun.map(({ operation }) => [operation.id, operation]));
  const sum = (field: "done" | "matched"): number =>
    [...latest.values()].reduce((total, operation) => total + operation[field], 0);
  const doneBefore = sum("done");
  const onProgress = (operation: Operation): void => {
    latest.set(operation.id, operation);
    redraw?.(progressBar(progressOf[change], sum("done"), sum("matched")));
  };
  try {
    for (const { queue, operation } of begun)
      await finishOperation(stores[queue], change, operation.id, { ...options, signal, onProgress });
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    redraw?.("");
    explainRest(change, [...latest.values()], input); // also after an error: its commands are needed most then
  }
  const done = sum("done");
  const now = done - doneBefore;
  const counted = now === done ? `${done}` : `${now} now, ${done} in all`; // a resumed one did some before
  const result = { [pastOf[change]]: done, now, operations: [...latest.keys()] };
  print(input, result, `${sentenceOf[change]} ${counted}.`);
  return [...latest.values()].some(isUnfinished) ? exitCodes.more : exitCodes.ok;
}

const isUnfinished = ({ endedAt }: Operation): boolean => endedAt === null;

/** Says what was not changed: by whom, or how to go on. */
export function explainRest(
  change: BulkAction,
  operations: readonly Operation[],
  { values, terminal }: CommandInput,
): void {
  for (const { endedAt, matched, done } of operations) {
    if (endedAt === null || done >= matched) continue;
    // Another operator, or another operation, was faster.
    const [verb, them] = matched - done === 1 ? ["was", "it"] : ["were", "them"];
    terminal.err(
      `${matched - done} of ${matched} ${verb} not ${pastOf[change]}: others changed ${them} meanwhile.`,
    );
  }
  const unfinished = operations.filter(isUnfinished);
  for (const { id } of unfinished)
    terminal.err(
      `Stopped before the end. Go on with: oncebox dead ${change} --resume ${id}${sameOptions(values)}`,
    );
  if (unfinished.length > 0 && hasPassword(text(values, "database")))
    terminal.err(
      "Set ONCEBOX_DATABASE_URL to the URL that you gave before: it has a password, which is not printed.",
    );
}

/**
 * The options of a command line for one that can be pasted: on the same database, at the same rate, by the same person. A
 * password is not printed: what is printed may be kept in a log.
 */
const sameOptions = (values: Values): string =>
  ["rate", "by", "app", "database", "schema", "tenant"]
    .flatMap((name) => {
      const value = text(values, name);
      if (value === undefined) return [];
      const isSecret = name === "database" && hasPassword(value);
      return [` --${name} ${isSecret ? '"$ONCEBOX_DATABASE_URL"' : word(value)}`];
    })
    .join("");

/** What a shell takes as one word, with quotes where it would change something. */
const word = (value: string): string => (/^[\w@%+=:,./-]+$/.test(value) ? value : quoted(value));

/** In the URL's place for it, or as a parameter. */
const hasPassword = (url = ""): boolean => /^\w+:\/\/[^/@]*:[^/@]+@/.test(url) || /password|pwd/i.test(url);

/** Of each queue: enough to find an unfinished one among them. */
const maxRecords = 1_000;

/** Prints the records of operations, and of pauses and limits: the unfinished ones, then the newest. */
export const listOperations = (input: CommandInput): Promise<number> => {
  const { values, terminal } = input;
  const queues = queuesOf(values);
  const limit = pageSize(values);
  return withStores(input, async (stores) => {
    const all: Operation[] = [];
    for (const queue of queues)
      all.push(...(await stores[queue].operations({ limit: maxRecords, signal: terminal.signal })));
    const shown = all.sort(unfinishedFirst).slice(0, limit);
    printTable(input, shown, {
      columns: operationColumns,
      json: (operation) => operation,
      none: "no operations",
    });
    return exitCodes.ok;
  });
};

const unfinishedFirst = (a: Operation, b: Operation): number =>
  Number(isUnfinished(b)) - Number(isUnfinished(a)) || b.at.getTime() - a.at.getTime();

const operationColumns: Columns<Operation> = {
  OPERATION: ({ id }) => id,
  ACTION: ({ action }) => action,
  QUEUE: ({ queue }) => queue,
  BY: ({ by }) => by,
  BEGAN: ({ at }) => at,
  RESUMED: ({ resumedBy, resumedAt }) =>
    resumedBy === null ? "-" : `by ${resumedBy} ${resumedAt!.toISOString()}`,
  ENDED: ({ endedAt }) => endedAt ?? "unfinished",
  DONE: ({ matched, done }) => (matched === 0 ? "-" : `${done} of ${matched}`),
  WHICH: whichText,
};

/** Such as `topic=mail.welcome olderThanMs=60000`, or `all`. */
function whichText({ action, filter }: Operation): string {
  const { perSecond, ...conditions } = filter;
  const rate = perSecond === null ? "no limit" : `at most ${perSecond} per second`;
  const texts = Object.entries(conditions).map(([name, value]) => `${name}=${valueText(value)}`);
  return `${texts.join(" ") || "all"}${action === "limit" ? `: ${rate}` : ""}`;
}

/** The keys of messages as the other commands take them. */
function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).join(",");
  return typeof value === "object" && value !== null ? keyText(value as AnyKey) : String(value);
}
