import { keyText } from "../admin/page/key-text.js";
import {
  listPhased,
  messageView,
  type PhasedMessage,
  type PhasedStep,
  phasedTrace,
  withPhases,
} from "../admin/phases.js";
import type { DeadGroup, FailedAttempt } from "../queue/operators.js";
import { type AnyKey, type QueueKind, queueOf } from "../queue/work-store.js";
import { type Command, type CommandInput, count, exitCodes, pageSize, UsageError } from "./command.js";
import { type QueueStores, storeHelp, storeOptions, withStores } from "./load-app.js";
import {
  deadFilterOf,
  filterHelp,
  filterOptions,
  getMessage,
  groupName,
  keyForms,
  parseKey,
  type QueueState,
  queuesOf,
  statesIn,
} from "./message-options.js";
import { printable, tableLines } from "./output.js";

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

export const showOptions = { payload: { type: "boolean" }, source: { type: "string" } } as const;
export const showHelp = {
  payload: "show the payload and the values of the headers too",
  source: "the source; KEY is then the message id alone",
};

export const showCommand: Command = {
  name: "show",
  summary: "show one message and its failed attempts",
  usage: "show KEY [--payload] [options]",
  options: { ...showOptions, ...storeOptions },
  help: { ...showHelp, ...storeHelp },
  examples: [
    "oncebox show stripe/evt_1 --payload",
    "oncebox show 0190a5c2-7d3e-7b1a-9c4f-2e8d6a1b3c5d --json",
    "oncebox show a/b --source erp/eu",
  ],
  positionals: 1,
  run: (input) => showMessage(input, input.positionals[0]),
};

/** Prints the message that KEY names. */
export async function showMessage(input: CommandInput, argument: string | undefined): Promise<number> {
  const { values, terminal } = input;
  const key = parseKey(argument, values);
  return withStores(input, async (stores) => {
    const message = await getMessage(stores, key);
    if (message === null) {
      terminal.err(
        `There is no message ${keyText(key.key)} in the ${key.queue}. KEY is ${keyForms}. \`oncebox list\` shows the keys.`,
      );
      // An outbox keeps nothing of a message that was archived or discarded, and a purge has no record.
      if (key.queue === "outbox")
        terminal.err(
          "If an operator archived it, it is in the table of archived messages: `oncebox dead operations` shows who archived, edited or discarded what.",
        );
      return exitCodes.failed;
    }
    const failedAttempts = await queueOf(stores, key.queue).attempts(message);
    const [phased] = await withPhases(queueOf(stores, key.queue), [message]);
    const shown = shownMessage(key.queue, phased!, values.payload === true);
    if (values.json) terminal.out(JSON.stringify({ ...shown, failedAttempts }));
    else for (const line of messageLines(shown, failedAttempts, terminal.columns)) terminal.out(line);
    if ("resolution" in message && message.resolution !== null)
      terminal.err("Its content and its failed attempts are in the table of archived messages.");
    return exitCodes.ok;
  });
}

export const traceCommand: Command = {
  name: "trace",
  summary: "show the trace of one event through inbox and outbox, with times",
  usage: "trace ID [options]",
  options: storeOptions,
  help: { ...storeHelp, json: "print one JSON object per line" },
  examples: [
    "oncebox trace evt_1",
    "oncebox trace 0190a5c2-7d3e-7b1a-9c4f-2e8d6a1b3c5d --json",
    'oncebox trace "order 7" --app dist/app.js --tenant acme',
  ],
  positionals: 1,
  async run(input) {
    const { values, terminal } = input;
    const id = input.positionals[0];
    if (id === undefined || id === "")
      throw new UsageError(
        "ID is missing: a correlation id, the message id of an inbox message, or the id of an outbox message.",
      );
    return withStores(input, async (stores) => {
      const trace = await phasedTrace(stores, id, { signal: terminal.signal });
      if (values.json)
        for (const { key, ...step } of trace) terminal.out(JSON.stringify({ ...step, key: keyText(key) }));
      else if (trace.length > 0)
        for (const line of tableLines(stepHead, trace.map(stepRow), terminal.columns)) terminal.out(line);
      if (trace.length > 0) return exitCodes.ok;
      terminal.err(`No message has the correlation id, message id or id "${id}".`);
      return exitCodes.failed;
    });
  },
};

const stepHead = [
  "QUEUE",
  "MESSAGE",
  "TOPIC",
  "STATE",
  "ENQUEUED",
  "FIRST ATTEMPT",
  "ENDED",
  "DEAD",
  "ERROR",
];

const timeText = (time: Date | null): string => time?.toISOString() ?? "";

const stepRow = (step: PhasedStep): readonly string[] => [
  step.queue,
  keyText(step.key),
  step.topic,
  step.phase,
  timeText(step.enqueuedAt),
  timeText(step.firstAttemptAt),
  timeText(step.doneAt),
  timeText(step.diedAt),
  step.lastError ?? "",
];

/** A message for the output. It has payload and header values only on request: they may be personal data. */
const shownMessage = (queue: QueueKind, phased: PhasedMessage, withPayload: boolean) => {
  const { message } = phased;
  const errorGroup = message.errorGroup === null ? null : groupName(message.errorGroup);
  return { queue, ...messageView(phased, withPayload), errorGroup };
};

/** One line per field that has a value, then the headers, the failed attempts, and the payload last. */
function messageLines(
  shown: ReturnType<typeof shownMessage>,
  attempts: readonly FailedAttempt[],
  width: number | undefined,
): readonly string[] {
  const { headers, headerNames, payload, ...fields } = shown;
  const lines = Object.entries(fields)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => line(name, value));
  if (headers === undefined && headerNames.length > 0)
    lines.push(line("headers", `${headerNames.join(", ")} (values: --payload)`));
  for (const [name, value] of Object.entries(headers ?? {})) lines.push(line(`header ${name}`, value));
  if (attempts.length > 0)
    lines.push(
      "",
      ...tableLines(["FAILED ATTEMPT", "AT", "WORKER", "ERROR"], attempts.map(attemptRow), width),
    );
  if (payload !== undefined) lines.push("", ...String(payload).split("\n").map(printable));
  return lines;
}

const attemptRow = ({ attempt, endedAt, worker, error }: FailedAttempt): readonly string[] => [
  String(attempt),
  endedAt.toISOString(),
  worker ?? "",
  error ?? "",
];

const line = (name: string, value: unknown): string =>
  `${printable(name).padEnd(15)} ${printable(value instanceof Date ? value.toISOString() : String(value))}`;

/** Prints the dead messages of each queue by error, the largest group first. */
export const listDeadGroups = (input: CommandInput): Promise<number> => {
  const queues = queuesOf(input.values);
  return withStores(input, async (stores) => {
    for (const queue of queues) await printGroups(input, stores, queue);
    return exitCodes.ok;
  });
};

async function printGroups(
  { values, terminal }: CommandInput,
  stores: QueueStores,
  queue: QueueKind,
): Promise<void> {
  const limit = pageSize(values);
  const filter = { ...deadFilterOf(values), limit, signal: terminal.signal };
  const groups = await queueOf(stores, queue).deadGroups(filter);
  if (values.json) for (const group of groups) terminal.out(JSON.stringify(shownGroup(queue, group)));
  else if (groups.length === 0) terminal.out(`${queue}: no dead messages`);
  else {
    const head = [`${queue.toUpperCase()} GROUP`, "COUNT", "FIRST", "LAST", "EXAMPLE", "ERROR"];
    for (const line of tableLines(head, groups.map(groupRow), terminal.columns)) terminal.out(line);
  }
}

const shownGroup = (queue: QueueKind, group: DeadGroup<AnyKey>): object => ({
  queue,
  ...group,
  errorGroup: groupName(group.errorGroup),
  example: keyText(group.example),
});

const groupRow = (group: DeadGroup<AnyKey>): readonly string[] => [
  groupName(group.errorGroup),
  String(group.count),
  group.firstAt.toISOString(),
  group.lastAt.toISOString(),
  keyText(group.example),
  group.error ?? "",
];
