import { listPhased, type PhasedMessage } from "../admin/list-phased.js";
import { keyText } from "../admin/page/key-text.js";
import { queueOf } from "../queue/any-queue.js";
import { type Command, type CommandInput, count, exitCodes, pageSize, UsageError } from "./command.js";
import {
  deadFilterOf,
  filterHelp,
  filterOptions,
  groupName,
  type QueueState,
  queuesOf,
  statesIn,
} from "./message-filter.js";
import { shownMessage } from "./message-output.js";
import { type QueueStores, storeHelp, storeOptions, withStores } from "./queue-stores.js";
import { tableLines } from "./table.js";

export const pageOptions = { limit: { type: "string" }, after: { type: "string" } } as const;
export const pageHelp = {
  limit: "the most messages of each queue; 50 by default, 1000 at most",
  after: "go on after this row number, the `seq` of the last message; needs --queue",
};

export const listCommand: Command = {
  name: "list",
  summary: "list messages by queue, state, topic, source, error and age",
  usage: "list [--queue inbox|outbox] [--state STATE] [--topic TOPIC] [options]",
  options: { ...filterOptions, state: { type: "string" }, ...pageOptions, ...storeOptions },
  help: {
    ...filterHelp,
    state:
      "waiting, retrying, running, paused, done or dead; in the inbox archived, replaced and seen; or the name of a state in the tables",
    ...pageHelp,
    ...storeHelp,
    json: "print one JSON object per line",
  },
  examples: [
    "oncebox list --queue inbox --state retrying --older-than 1h",
    "oncebox list --source stripe --topic invoice.paid --limit 200 --json",
    "oncebox list --queue outbox --after 4711 --app dist/app.js --tenant acme",
  ],
  run: (input) => listMessages(input, statesIn(queuesOf(input.values), input.values)),
};

/** Prints one page of each queue. */
export async function listMessages(input: CommandInput, queues: readonly QueueState[]): Promise<number> {
  const { values } = input;
  const limit = pageSize(values);
  const after = count(values, "after") ?? 0;
  if (values.after !== undefined && queues.length > 1)
    throw new UsageError("--after needs --queue: a row number is of one queue.");
  return withStores(input, async (stores) => {
    for (const queue of queues) await printPage(input, stores, queue, { limit, after });
    return exitCodes.ok;
  });
}

async function printPage(
  { values, terminal }: CommandInput,
  stores: QueueStores,
  { queue, ...wanted }: QueueState,
  page: { readonly limit: number; readonly after: number },
): Promise<void> {
  const filter = { ...deadFilterOf(values), ...wanted, ...page, signal: terminal.signal };
  const { messages, cursor } = await listPhased(queueOf(stores, queue), queue, filter);
  if (values.json) for (const one of messages) terminal.out(JSON.stringify(shownMessage(queue, one, false)));
  else if (messages.length === 0) terminal.out(`${queue}: no messages`);
  else {
    const { head, row } = wanted.phase === "dead" ? deadTable : stateTable;
    const names = [queue.toUpperCase(), ...head];
    for (const line of tableLines(names, messages.map(row), terminal.columns)) terminal.out(line);
  }
  if (cursor !== null) terminal.err(`There may be more: add --queue ${queue} --after ${cursor}`);
}

/** The columns after the key. The last one is cut where the terminal is narrow. */
interface MessageTable {
  readonly head: readonly string[];
  readonly row: (one: PhasedMessage) => readonly string[];
}

const stateTable: MessageTable = {
  head: ["STATE", "TOPIC", "ATTEMPT", "SINCE", "ERROR"],
  row: ({ message, phase }) => [
    keyText(message),
    phase,
    message.topic,
    String(message.attempt),
    ("firstSeenAt" in message ? message.firstSeenAt : message.createdAt).toISOString(),
    message.lastError ?? "",
  ],
};

const deadTable: MessageTable = {
  head: ["TOPIC", "ATTEMPT", "DIED", "GROUP", "ERROR"],
  row: ({ message }) => [
    keyText(message),
    message.topic,
    String(message.attempt),
    message.diedAt?.toISOString() ?? "",
    groupName(message.errorGroup),
    message.lastError ?? "",
  ],
};
