import { finishOperation } from "../operators/replay-dead.js";
import { type QueueKind, queueOf } from "../queue/any-queue.js";
import type { Operation } from "../queue/dead-letters.js";
import { type Change, pastOf, progressOf, sentenceOf } from "./change.js";
import { type CommandInput, exitCodes, type Terminal, text, type Values } from "./command.js";
import { progressBar } from "./progress.js";
import type { QueueStores } from "./queue-stores.js";
import { beforePasting, sameDatabase, word } from "./same-database.js";

export interface Begun {
  readonly queue: QueueKind;
  readonly operation: Operation;
}

export interface Pace {
  readonly ratePerSecond: number | undefined;
  /** Who goes on with operations that were interrupted. */
  readonly resumedBy?: string;
}

/** Does what is left of operations, and says how many messages they changed. */
export async function finishOperations(
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
