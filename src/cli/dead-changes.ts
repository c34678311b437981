import { keyText } from "../admin/page/key-text.js";
import { withPhases } from "../admin/phases.js";
import { InvalidArgumentError } from "../errors.js";
import { finishOperation } from "../operators/replay-dead.js";
import type { BulkAction, Operation } from "../queue/operators.js";
import {
  type AnyKey,
  type AnyMessage,
  type AnyQueue,
  deadState,
  type QueueKind,
  queueOf,
} from "../queue/work-store.js";
import {
  type CommandInput,
  count,
  exitCodes,
  pageSize,
  type Terminal,
  text,
  UsageError,
  type Values,
} from "./command.js";
import { type QueueStores, withStores } from "./load-app.js";
import {
  deadFilterOf,
  filterOptions,
  getMessage,
  groupOptions,
  type MessageKey,
  operatorName,
  parseKey,
  queuesOf,
} from "./message-options.js";
import { progressBar, quoted, tableLines } from "./output.js";

export const changeOptions = {
  all: { type: "boolean" },
  "dry-run": { type: "boolean" },
  rate: { type: "string" },
  by: { type: "string" },
  resume: { type: "string" },
} as const;

export const changeHelp = {
  all: "replay, discard or archive without a condition",
  "dry-run": "say how many messages it would be, and change none",
  rate: "the most messages per second",
  by: "who does or resumes it, for the record; the user of this process by default",
  resume: "go on with the operation of this id, as `dead operations` prints it",
};

/** Replays, discards or archives the message that KEY names, those that the conditions find, or the rest of an operation. */
export async function changeDead(change: Change, input: CommandInput): Promise<number> {
  const { values, positionals } = input;
  const key = positionals[1];
  const rate = count(values, "rate");
  if (rate === 0) throw new UsageError("--rate must be 1 or more.");
  if (values.resume !== undefined) {
    refuseWithResume(values, key);
    return withStores(input, (stores) => resumeChange(change, input, stores, rate));
  }
  if (key !== undefined) {
    refuseWithKey(change, values);
    return withStores(input, (stores) => changeOne(change, input, stores, parseKey(key, values)));
  }
  if (conditionsOf(values).length === 0 && !values.all)
    throw new UsageError(`dead ${change} needs KEY, a condition such as --topic, or --all.`);
  return withStores(input, (stores) => changeMany(change, input, stores, rate));
}

/** A queue alone is no condition: what was meant may have been forgotten. */
const conditionsOf = (values: Values): readonly string[] =>
  Object.keys(values).filter((name) => name !== "queue" && (name in filterOptions || name in groupOptions));

function refuseWithResume(values: Values, key: string | undefined): void {
  const others = [...conditionsOf(values), ...["all", "dry-run"].filter((name) => name in values)];
  if (others.length > 0 || key !== undefined)
    throw new UsageError(
      "Beside --resume give --queue, --rate and --by alone. The rest is in the operation's record.",
    );
}

function refuseWithKey(change: Change, values: Values): void {
  const others = conditionsOf(values).filter((name) => name !== "source");
  if (others.length > 0 || values.all || values.queue !== undefined)
    throw new UsageError("Give KEY, or conditions or --all, not both.");
  if (values["dry-run"] || values.rate !== undefined)
    throw new UsageError(`dead ${change} takes --dry-run and --rate with conditions only.`);
}

/** Replays, discards or archives one message. */
async function changeOne(
  change: Change,
  { values, terminal }: CommandInput,
  stores: QueueStores,
  key: MessageKey,
): Promise<number> {
  const message = await getMessage(stores, key);
  const isDead = message?.state === deadState[key.queue];
  if (isDead && (await settle(change, queueOf(stores, key.queue), key.key, operatorName(values)))) {
    const result = { [pastOf[change]]: 1 };
    terminal.out(values.json ? JSON.stringify(result) : `${sentenceOf[change]} ${keyText(key.key)}.`);
    return exitCodes.ok;
  }
  terminal.err(await notDead(pastOf[change], stores, key, message));
  return exitCodes.failed;
}

/** Says why nothing was done. `message` is what was read before. */
export async function notDead(
  past: string,
  stores: QueueStores,
  { queue, key }: MessageKey,
  message: AnyMessage | null,
): Promise<string> {
  const not = `${keyText(key)} was not ${past}.`;
  if (message === null) return `${not} It is not in the ${queue}.`;
  if (message.state === deadState[queue]) return `${not} It is not dead any more.`;
  const [phased] = await withPhases(queueOf(stores, queue), [message]);
  return `${not} It is not dead but ${phased!.phase}.`;
}

async function settle(change: Change, store: AnyQueue, key: AnyKey, by: string): Promise<boolean> {
  const { changed } = await store[change]([key], { by });
  return changed.length === 1;
}

/** Replays, discards or archives the dead messages that match. */
async function changeMany(
  change: Change,
  input: CommandInput,
  stores: QueueStores,
  rate: number | undefined,
): Promise<number> {
  const { values, terminal } = input;
  const filter = { ...deadFilterOf(values), signal: terminal.signal };
  const found = [];
  for (const queue of queuesOf(values))
    found.push({ queue, matched: await queueOf(stores, queue).countDead(filter) });
  const matched = found.reduce((total, one) => total + one.matched, 0);
  if (matched === 0) terminal.err("No dead message matches.");
  if (!values["dry-run"]) {
    const queues = found.filter(({ matched }) => matched > 0).map(({ queue }) => queue);
    return finishOperations(change, input, stores, await begin(change, input, stores, queues), {
      ratePerSecond: rate,
    });
  }
  const result = { matched, [pastOf[change]]: 0 };
  terminal.out(values.json ? JSON.stringify(result) : `${matched} would be ${pastOf[change]}.`);
  return exitCodes.ok;
}

/** Records the operations of all queues before the first message is changed: what dies meanwhile is not part of them. */
async function begin(
  change: Change,
  { values, terminal }: CommandInput,
  stores: QueueStores,
  queues: readonly Begun["queue"][],
): Promise<readonly Begun[]> {
  const options = { by: operatorName(values), signal: terminal.signal };
  const begun: Begun[] = [];
  for (const queue of queues) {
    const operation = await queueOf(stores, queue).startOperation(change, deadFilterOf(values), options);
    terminal.err(`Operation ${operation.id}: ${operation.matched} in the ${queue}.`);
    begun.push({ queue, operation });
  }
  return begun;
}

/** Goes on with an operation that was interrupted. */
async function resumeChange(
  change: Change,
  input: CommandInput,
  stores: QueueStores,
  rate: number | undefined,
): Promise<number> {
  const { values, terminal } = input;
  const id = text(values, "resume")!.toLowerCase();
  for (const queue of queuesOf(values)) {
    const operation = await queueOf(stores, queue).operation(id, { signal: terminal.signal });
    if (operation === null) continue;
    if (operation.action !== change)
      throw new InvalidArgumentError(
        `The operation ${id} is of the action ${operation.action}, not ${change}.`,
      );
    return finishOperations(change, input, stores, [{ queue, operation }], {
      ratePerSecond: rate,
      resumedBy: operatorName(values),
    });
  }
  throw new InvalidArgumentError(`There is no operation "${id}". \`oncebox dead operations\` shows them.`);
}

interface Begun {
  readonly queue: QueueKind;
  readonly operation: Operation;
}

interface Pace {
  readonly ratePerSecond: number | undefined;
  /** Who goes on with operations that were interrupted. */
  readonly resumedBy?: string;
}

/** Does what is left of operations, and says how many messages they changed. */
async function finishOperations(
  change: Change,
  { values, terminal }: CommandInput,
  stores: QueueStores,
  begun: readonly Begun[],
  { ratePerSecond, resumedBy }: Pace,
): Promise<number> {
  const { signal } = terminal;
  const progress = followed(change, begun, values, terminal);
  try {
    for (const { queue, operation } of begun) {
      const options = { ratePerSecond, resumedBy, signal, onProgress: progress.show };
      await finishOperation(queueOf(stores, queue), change, operation.id, options);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    progress.end();
  }
  const done = progress.done();
  const now = done - begun.reduce((total, { operation }) => total + operation.done, 0);
  const operations = begun.map(({ operation }) => operation.id);
  const counted = now === done ? `${done}` : `${now} now, ${done} in all`; // a resumed one did some before
  terminal.out(
    values.json
      ? JSON.stringify({ [pastOf[change]]: done, now, operations })
      : `${sentenceOf[change]} ${counted}.`,
  );
  return progress.isComplete() ? exitCodes.ok : exitCodes.more;
}

function followed(change: Change, begun: readonly Begun[], values: Values, terminal: Terminal) {
  const latest = new Map(begun.map(({ operation }) => [operation.id, operation]));
  const sum = (of: (operation: Operation) => number): number =>
    [...latest.values()].reduce((total, operation) => total + of(operation), 0);
  const done = () => sum((operation) => operation.done);
  const unfinished = () => [...latest.values()].filter(({ endedAt }) => endedAt === null);
  const bar = progressBar(
    terminal,
    progressOf[change],
    sum(({ matched }) => matched),
  );
  return {
    done,
    isComplete: () => unfinished().length === 0,
    show(operation: Operation): void {
      latest.set(operation.id, operation);
      bar.show(done());
    },
    /** Also after an error: the commands are needed most then. */
    end(): void {
      bar.end();
      for (const { endedAt, ...counts } of latest.values())
        if (endedAt !== null && counts.done < counts.matched) terminal.err(leftOut(change, counts));
      for (const { id } of unfinished())
        terminal.err(`Stopped before the end. Go on with: ${resumeLine(change, id, values)}`);
      const first = unfinished().length > 0 ? beforePasting(values) : undefined;
      if (first !== undefined) terminal.err(first);
    },
  };
}

/** A command that can be pasted: on the same database, at the same rate, by the same person. */
function resumeLine(change: Change, id: string, values: Values): string {
  const kept = ["rate", "by"].flatMap((name) => {
    const value = text(values, name);
    return value === undefined ? [] : [` --${name} ${word(value)}`];
  });
  return `oncebox dead ${change} --resume ${id}${kept.join("")}${sameDatabase(values)}`;
}

/** Another operator, or another operation, was faster. */
function leftOut(change: Change, { matched, done }: Pick<Operation, "matched" | "done">): string {
  const [verb, them] = matched - done === 1 ? ["was", "it"] : ["were", "them"];
  return `${matched - done} of ${matched} ${verb} not ${pastOf[change]}: others changed ${them} meanwhile.`;
}

/** Of each queue: enough to find an unfinished one among them. */
const mostRecords = 1_000;

/** Prints the records of operations, and of pauses and limits: the unfinished ones, then the newest. */
export const listOperations = ({ values, ...input }: CommandInput): Promise<number> => {
  const queues = queuesOf(values);
  const limit = pageSize(values);
  const { terminal } = input;
  return withStores({ values, ...input }, async (stores) => {
    const all: Operation[] = [];
    for (const queue of queues)
      all.push(...(await queueOf(stores, queue).operations({ limit: mostRecords, signal: terminal.signal })));
    const operations = all.sort(unfinishedFirst).slice(0, limit);
    if (values.json) for (const operation of operations) terminal.out(JSON.stringify(operation));
    else if (operations.length === 0) terminal.out("no operations");
    else
      for (const line of tableLines(operationHead, operations.map(operationRow), terminal.columns))
        terminal.out(line);
    return exitCodes.ok;
  });
};

const unfinishedFirst = (a: Operation, b: Operation): number =>
  Number(a.endedAt !== null) - Number(b.endedAt !== null) || b.at.getTime() - a.at.getTime();

const operationHead = ["OPERATION", "ACTION", "QUEUE", "BY", "BEGAN", "RESUMED", "ENDED", "DONE", "WHICH"];

const operationRow = (operation: Operation): readonly string[] => [
  operation.id,
  operation.action,
  operation.queue,
  operation.by,
  operation.at.toISOString(),
  resumed(operation),
  operation.endedAt?.toISOString() ?? "unfinished",
  operation.matched === 0 ? "-" : `${operation.done} of ${operation.matched}`,
  whichText(operation),
];

const resumed = ({ resumedBy, resumedAt }: Operation): string =>
  resumedBy === null ? "-" : `by ${resumedBy} ${resumedAt!.toISOString()}`;

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

/** What is done to dead messages. */
type Change = BulkAction;

const pastOf = { replay: "replayed", discard: "discarded", archive: "archived" } as const;
const sentenceOf = { replay: "Replayed", discard: "Discarded", archive: "Archived" } as const;
/** While it is being done. */
const progressOf = { replay: "replaying", discard: "discarding", archive: "archiving" } as const;

const names = ["app", "database", "schema", "tenant"] as const;

/**
 * The options of a command line that say where its messages are, for a command that can be pasted. A password is not printed: what
 * is printed may be kept in a log.
 */
export function sameDatabase(values: Values): string {
  const options = names.flatMap((name) => {
    const value = text(values, name);
    return value === undefined ? [] : [` --${name} ${shown(name, value)}`];
  });
  return options.join("");
}

const shown = (name: string, value: string): string =>
  name === "database" && hasPassword(value) ? '"$ONCEBOX_DATABASE_URL"' : word(value);

/** What a shell takes as one word, with quotes where it would change something. */
const word = (value: string): string => (/^[\w@%+=:,./-]+$/.test(value) ? value : quoted(value));

/** What to do before the command is pasted; undefined when it works as it is. */
export const beforePasting = (values: Values): string | undefined =>
  hasPassword(text(values, "database") ?? "")
    ? "Set ONCEBOX_DATABASE_URL to the URL that you gave before: it has a password, which is not printed."
    : undefined;

/** In the URL's place for it, or as a parameter. */
const hasPassword = (url: string): boolean =>
  /^\w+:\/\/[^/@]*:[^/@]+@/.test(url) || /password|pwd/i.test(url);
