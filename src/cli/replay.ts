import { sleep } from "../base/wait.js";
import { type CommandInput, count, exitCodes, type Terminal, UsageError } from "./command.js";
import {
  deadState,
  filterOf,
  filterOptions,
  type MessageFilter,
  type QueueKind,
  queuesOf,
} from "./message-filter.js";
import { formatKey, getMessage, type MessageKey, parseKey } from "./message-key.js";
import { progressBar } from "./progress.js";
import { type AnyMessage, type QueueStores, storeOf, withStores } from "./queue-stores.js";

export const replayOptions = {
  all: { type: "boolean" },
  "dry-run": { type: "boolean" },
  rate: { type: "string" },
} as const;

export const replayOptionsHelp = {
  all: "replay without a condition",
  "dry-run": "say how many messages would be replayed, and replay none",
  rate: "the most messages per second to replay",
};

const mostAtOnce = 200;

/** Replays the message that KEY names, or those that the conditions find. */
export async function replayMessages(input: CommandInput): Promise<number> {
  const { values, positionals } = input;
  const key = positionals[1];
  const conditions = Object.keys(values).filter((name) => name in filterOptions);
  if (key !== undefined) {
    const others = conditions.filter((name) => name !== "source");
    if (others.length > 0 || values.all) throw new UsageError("Give KEY, or conditions or --all, not both.");
    if (values["dry-run"] || values.rate !== undefined)
      throw new UsageError("--dry-run and --rate are for a replay by conditions.");
    return withStores(input, (stores) => replayOne(input, stores, parseKey(key, values)));
  }
  if (conditions.length === 0 && !values.all)
    throw new UsageError("dead replay needs KEY, a condition such as --topic, or --all.");
  const rate = count(values, "rate");
  if (rate === 0) throw new UsageError("--rate must be 1 or more.");
  return withStores(input, (stores) => replayMany(input, stores, rate));
}

async function replayOne(
  { values, terminal }: CommandInput,
  stores: QueueStores,
  key: MessageKey,
): Promise<number> {
  const message = await getMessage(stores, key);
  const { changed } = message === null ? { changed: [] } : await storeOf(stores, key.queue).replay([message]);
  if (changed.length === 1) {
    terminal.out(values.json ? JSON.stringify({ replayed: 1 }) : `Replayed ${formatKey(key.key)}.`);
    return exitCodes.ok;
  }
  const why = message === null ? `is not in the ${key.queue}` : `is not dead: its state is ${message.state}`;
  terminal.err(`${formatKey(key.key)} was not replayed. It ${why}.`);
  return exitCodes.failed;
}

async function replayMany(
  { values, terminal }: CommandInput,
  stores: QueueStores,
  rate: number | undefined,
): Promise<number> {
  const queues = queuesOf(values);
  const filter = filterOf(values);
  const isDry = values["dry-run"] === true;
  const needsTotal = isDry || terminal.redraw !== undefined;
  const matched = needsTotal ? await countDead(stores, queues, filter, terminal) : 0;
  if (isDry) {
    terminal.out(values.json ? JSON.stringify({ matched, replayed: 0 }) : `${matched} would be replayed.`);
    return exitCodes.ok;
  }
  const bar = progressBar(terminal, "replaying", matched);
  let replayed = 0;
  try {
    for (const queue of queues)
      for await (const page of deadPages(
        stores,
        queue,
        filter,
        terminal,
        Math.min(rate ?? mostAtOnce, mostAtOnce),
      )) {
        replayed += (await storeOf(stores, queue).replay(page)).changed.length;
        bar.show(replayed);
        if (rate !== undefined) await sleep((page.length / rate) * 1_000, terminal.signal).catch(() => {});
      }
  } finally {
    bar.end();
  }
  terminal.out(values.json ? JSON.stringify({ replayed }) : `Replayed ${replayed}.`);
  if (!terminal.signal.aborted) return exitCodes.ok;
  terminal.err("Stopped before the end. The same command goes on with the messages that are still dead.");
  return exitCodes.more;
}

async function countDead(
  stores: QueueStores,
  queues: readonly QueueKind[],
  filter: MessageFilter,
  terminal: Terminal,
): Promise<number> {
  let matched = 0;
  for (const queue of queues)
    for await (const page of deadPages(stores, queue, filter, terminal, 1_000)) matched += page.length;
  return matched;
}

/** In the order of row numbers, each message once: one that dies again meanwhile does not come again. */
async function* deadPages(
  stores: QueueStores,
  queue: QueueKind,
  filter: MessageFilter,
  { signal }: Terminal,
  limit: number,
): AsyncGenerator<readonly AnyMessage[]> {
  let after: number | null = 0;
  while (after !== null && !signal.aborted) {
    const page: { messages: readonly AnyMessage[]; cursor: number | null } = await storeOf(
      stores,
      queue,
    ).list({
      ...filter,
      state: deadState[queue],
      limit,
      after,
    });
    if (page.messages.length > 0) yield page.messages;
    after = page.cursor;
  }
}
