import { keyText } from "../admin/page/key-text.js";
import {
  listPhased,
  messageView,
  type PhasedFilter,
  type PhasedMessage,
  type PhasedStep,
  phasedTrace,
  phaseOrState,
  withPhases,
} from "../admin/phases.js";
import { phases } from "../queue/message.js";
import type { FailedAttempt } from "../queue/operators.js";
import type { QueueKind } from "../queue/work-store.js";
import { type Command, type CommandInput, exitCodes, flag, option, UsageError } from "./command.js";
import { withQueues, withStores } from "./load-app.js";
import {
  type Columns,
  count,
  filterOf,
  filterOptions,
  groupName,
  keyForms,
  pageSize,
  parseKey,
  print,
  printable,
  printTable,
  queuesOf,
  storeOptions,
  tableLines,
  text,
} from "./terminal.js";

export const pageOptions = {
  limit: option("the most messages of each queue; 50 by default, 1000 at most"),
  after: option("go on after this row number, the `seq` of the last message; needs --queue"),
};

const jsonLines = { json: flag("print one JSON object per line") };

export const listCommand: Command = {
  name: "list",
  summary: "list messages by queue, state, topic, source, error and age",
  usage: "list [--queue inbox|outbox] [--state STATE] [--topic TOPIC] [options]",
  options: {
    ...filterOptions,
    state: option(
      "waiting, retrying, running, paused, done or dead; in the inbox archived, replaced and seen; or the name of a state in the tables",
    ),
    ...pageOptions,
    ...storeOptions,
    ...jsonLines,
  },
  examples: [
    "oncebox list --queue inbox --state retrying --older-than 1h",
    "oncebox list --source stripe --topic stripe.invoice.paid --limit 200 --json",
    "oncebox list --queue outbox --after 4711 --app dist/app.js --tenant acme",
  ],
  run(input) {
    const queues = queuesOf(input.values);
    const state = text(input.values, "state");
    if (state === undefined) return listMessages(input, queues, () => ({}));
    // a queue that does not have the state is left out
    const having = queues.filter((queue) => phaseOrState(queue, state) !== undefined);
    if (having.length === 0) throw new UsageError(`--state must be one of ${phases.join(", ")}.`);
    return listMessages(input, having, (queue) => phaseOrState(queue, state)!);
  },
};

export const listDead = (input: CommandInput): Promise<number> =>
  listMessages(input, queuesOf(input.values), () => ({ phase: "dead" }));

/** Prints one page of each queue. */
async function listMessages(
  input: CommandInput,
  queues: readonly QueueKind[],
  wantedIn: (queue: QueueKind) => Pick<PhasedFilter, "phase" | "state">,
): Promise<number> {
  const { values, terminal } = input;
  const page = { limit: pageSize(values), after: count(values, "after") ?? 0 };
  if (values.after !== undefined && queues.length > 1)
    throw new UsageError("--after needs --queue: row numbers differ between the queues.");
  return withQueues(input, queues, async (queue, kind) => {
    const wanted = wantedIn(kind);
    const filter = { ...filterOf(values), ...wanted, ...page, signal: terminal.signal };
    const { messages, cursor } = await listPhased(queue, kind, filter);
    printTable(input, messages, {
      columns: {
        [kind.toUpperCase()]: ({ message }) => keyText(message),
        ...(wanted.phase === "dead" ? deadColumns : stateColumns),
      },
      json: (one) => shownMessage(kind, one, false),
      none: `${kind}: no messages`,
    });
    if (cursor !== null) terminal.err(`There may be more: add --queue ${kind} --after ${cursor}`);
  });
}

const stateColumns: Columns<PhasedMessage> = {
  STATE: ({ phase }) => phase,
  TOPIC: ({ message }) => message.topic,
  TYPE: ({ message }) => message.type,
  ATTEMPT: ({ message }) => message.attempt,
  SINCE: ({ message }) => ("firstSeenAt" in message ? message.firstSeenAt : message.createdAt),
  ERROR: ({ message }) => message.lastError,
};

const deadColumns: Columns<PhasedMessage> = {
  TOPIC: ({ message }) => message.topic,
  TYPE: ({ message }) => message.type,
  ATTEMPT: ({ message }) => message.attempt,
  DIED: ({ message }) => message.diedAt,
  GROUP: ({ message }) => groupName(message.errorGroup),
  ERROR: ({ message }) => message.lastError,
};

/** Prints the dead messages of each queue by error, the largest group first. */
export const listDeadGroups = (input: CommandInput): Promise<number> => {
  const { values, terminal } = input;
  const filter = { ...filterOf(values), limit: pageSize(values), signal: terminal.signal };
  return withQueues(input, queuesOf(values), async (queue, kind) =>
    printTable(input, await queue.deadGroups(filter), {
      columns: {
        [`${kind.toUpperCase()} GROUP`]: ({ errorGroup }) => groupName(errorGroup),
        COUNT: (group) => group.count,
        FIRST: ({ firstAt }) => firstAt,
        LAST: ({ lastAt }) => lastAt,
        EXAMPLE: ({ example }) => keyText(example),
        ERROR: ({ error }) => error,
      },
      json: (group) => ({
        queue: kind,
        ...group,
        errorGroup: groupName(group.errorGroup),
        example: keyText(group.example),
      }),
      none: `${kind}: no dead messages`,
    }),
  );
};

export const showOptions = {
  payload: flag("show the payload and the values of the headers too"),
  source: option("the source; KEY is then only the message id"),
};

export const showCommand: Command = {
  name: "show",
  summary: "show one message and its failed attempts",
  usage: "show KEY [--payload] [options]",
  options: { ...showOptions, ...storeOptions },
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
  const { queue: kind, key } = parseKey(argument, values);
  return withStores(input, async (stores) => {
    const queue = stores[kind];
    const message = await queue.get(key);
    if (message === null) {
      terminal.err(
        `There is no message ${keyText(key)} in the ${kind}. KEY is ${keyForms}. \`oncebox list\` shows the keys.`,
      );
      // An outbox keeps nothing of a message that was archived or discarded, and a purge has no record.
      if (kind === "outbox")
        terminal.err(
          "If an operator archived it, it is in the table of archived messages: `oncebox dead operations` shows who archived, edited or discarded what.",
        );
      return exitCodes.failed;
    }
    const failedAttempts = await queue.attempts(message);
    const [phased] = await withPhases(queue, [message]);
    const shown = shownMessage(kind, phased!, values.payload === true);
    const lines = messageLines(shown, failedAttempts, terminal.columns);
    print(input, { ...shown, failedAttempts }, lines.join("\n"));
    if ("resolution" in message && message.resolution !== null)
      terminal.err("Its content and its failed attempts are in the table of archived messages.");
    return exitCodes.ok;
  });
}

/** A message for the output. It has payload and header values only on request: they may be personal data. */
const shownMessage = (queue: QueueKind, phased: PhasedMessage, withPayload: boolean) => {
  const { errorGroup } = phased.message;
  const named = errorGroup === null ? null : groupName(errorGroup);
  return { queue, ...messageView(phased, withPayload), errorGroup: named };
};

/** One line per field that has a value, then the headers, the failed attempts, and the payload last. */
function messageLines(
  { headers, headerNames, payload, ...fields }: ReturnType<typeof shownMessage>,
  attempts: readonly FailedAttempt[],
  width: number | undefined,
): readonly string[] {
  const lines = Object.entries(fields)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => fieldLine(name, value));
  if (headers === undefined && headerNames.length > 0)
    lines.push(fieldLine("headers", `${headerNames.join(", ")} (add --payload to see the values)`));
  for (const [name, value] of Object.entries(headers ?? {})) lines.push(fieldLine(`header ${name}`, value));
  if (attempts.length > 0) lines.push("", ...tableLines(attemptColumns, attempts, width));
  if (payload !== undefined) lines.push("", ...String(payload).split("\n").map(printable));
  return lines;
}

const fieldLine = (name: string, value: unknown): string =>
  `${printable(name).padEnd(15)} ${printable(value instanceof Date ? value.toISOString() : String(value))}`;

const attemptColumns: Columns<FailedAttempt> = {
  "FAILED ATTEMPT": ({ attempt }) => attempt,
  AT: ({ endedAt }) => endedAt,
  WORKER: ({ worker }) => worker,
  ERROR: ({ error }) => error,
};

export const traceCommand: Command = {
  name: "trace",
  summary: "show the trace of one event through inbox and outbox, with times",
  usage: "trace ID [options]",
  options: { ...storeOptions, ...jsonLines },
  examples: [
    "oncebox trace evt_1",
    "oncebox trace 0190a5c2-7d3e-7b1a-9c4f-2e8d6a1b3c5d --json",
    'oncebox trace "order 7" --app dist/app.js --tenant acme',
  ],
  positionals: 1,
  async run(input) {
    const { positionals, terminal } = input;
    const [id] = positionals;
    if (!id)
      throw new UsageError(
        "ID is missing: a correlation id, the message id of an inbox message, or the id of an outbox message.",
      );
    return withStores(input, async (stores) => {
      const trace = await phasedTrace(stores, id, { signal: terminal.signal });
      if (trace.length === 0) {
        terminal.err(`No message has the correlation id, message id or id "${id}".`);
        return exitCodes.failed;
      }
      printTable(input, trace, {
        columns: stepColumns,
        json: ({ key, ...step }) => ({ ...step, key: keyText(key) }),
        none: "",
      });
      return exitCodes.ok;
    });
  },
};

const stepColumns: Columns<PhasedStep> = {
  QUEUE: ({ queue }) => queue,
  MESSAGE: ({ key }) => keyText(key),
  TOPIC: ({ topic }) => topic,
  STATE: ({ phase }) => phase,
  ENQUEUED: ({ enqueuedAt }) => enqueuedAt,
  "FIRST ATTEMPT": ({ firstAttemptAt }) => firstAttemptAt,
  ENDED: ({ doneAt }) => doneAt,
  DEAD: ({ diedAt }) => diedAt,
  ERROR: ({ lastError }) => lastError,
};
