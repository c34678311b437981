import type { ControlTarget } from "../queue/operators.js";
import { type AnyQueue, type QueueKind, queueKinds } from "../queue/work-store.js";
import {
  type Command,
  type CommandInput,
  exitCodes,
  flag,
  option,
  UsageError,
  type Values,
} from "./command.js";
import { withQueues } from "./load-app.js";
import { controlLine, phaseLine, queueLine } from "./status.js";
import { byOption, operatorName, print, printable, queuesOf, storeOptions, text } from "./terminal.js";

/** The options of `pause`, `resume` and `limit`. */
const controlOptions = {
  topic: option("the messages of this topic"),
  source: option("the messages of this source, in the inbox"),
  all: flag("all messages of the queue"),
  queue: option("inbox or outbox; both by default"),
  ...byOption,
  ...storeOptions,
};

export const pauseCommand: Command = {
  name: "pause",
  summary: "stop claiming the messages of a topic, a source or a whole queue, in every process",
  usage: "pause --topic TOPIC | --source SOURCE | --all [--queue inbox|outbox] [options]",
  options: controlOptions,
  examples: [
    "oncebox pause --topic mail.welcome --queue outbox",
    "oncebox pause --source stripe --by alice",
    "oncebox pause --all --app dist/app.js --tenant acme",
  ],
  run(input) {
    const { target, queues, options } = chosenControl(input);
    return withQueues(input, queues, async (queue, kind) => {
      const control = await queue.pause(target, options);
      await printPhases(input, queue, kind, control, controlLine(kind, control));
    });
  },
};

export const resumeCommand: Command = {
  name: "resume",
  summary: "end a pause, and return the messages that waited for it",
  usage: "resume --topic TOPIC | --source SOURCE | --all [--queue inbox|outbox] [options]",
  options: controlOptions,
  examples: [
    "oncebox resume --topic mail.welcome --queue outbox",
    "oncebox resume --source stripe",
    "oncebox resume --all --app dist/app.js --tenant acme --json",
  ],
  async run(input) {
    const { target, queues, what, options } = chosenControl(input);
    let wasPaused = false;
    await withQueues(input, queues, async (queue, kind) => {
      const resumed = await queue.resume(target, options);
      wasPaused ||= resumed.wasPaused;
      if (input.values.json || resumed.wasPaused)
        await printPhases(input, queue, kind, resumed, queueLine(kind, `resumed ${what}`));
    });
    if (wasPaused) return exitCodes.ok;
    const where = queues.length === queueKinds.length ? "inbox and outbox" : queues[0];
    input.terminal.err(`There was no pause of ${what} in ${where}. \`oncebox status\` shows what is paused.`);
    return exitCodes.failed;
  },
};

/** What was done, and how the queue is now, in the words of `status`. */
async function printPhases(
  input: CommandInput,
  queue: AnyQueue,
  kind: QueueKind,
  result: object,
  line: string,
): Promise<void> {
  const { phases } = await queue.stats({ signal: input.terminal.signal });
  print(input, { queue: kind, ...result, phases }, `${line}\n${phaseLine(kind, phases)}`);
}

export const limitCommand: Command = {
  name: "limit",
  summary: "limit how many messages are claimed in a second, by all processes together",
  usage: "limit --topic TOPIC | --source SOURCE | --all --per-second N | --none [options]",
  options: {
    ...controlOptions,
    "per-second": option("the most messages in a second, of each queue; 0.1 is one in ten seconds"),
    none: flag("take the limit away"),
  },
  examples: [
    "oncebox limit --topic mail.welcome --per-second 10 --queue outbox",
    "oncebox limit --all --per-second 50 --queue inbox --app dist/app.js --tenant acme",
    "oncebox limit --topic mail.welcome --none",
  ],
  run(input) {
    const { target, queues, what, options } = chosenControl(input);
    const limit = { ...(target === "all" ? {} : target), perSecond: rateOf(input.values) };
    return withQueues(input, queues, async (queue, kind) => {
      const control = await queue.limit(limit, options);
      const line = control === null ? queueLine(kind, `no limit on ${what}`) : controlLine(kind, control);
      print(input, { queue: kind, control }, line);
    });
  },
};

function rateOf(values: Values): number | null {
  const given = text(values, "per-second");
  if ((given === undefined) === !values.none) throw new UsageError("Give --per-second N, or --none.");
  if (given === undefined) return null;
  if (!/^\d*\.?\d+$/.test(given) || Number(given) === 0)
    throw new UsageError("--per-second must be a number greater than 0, such as 10 or 0.5.");
  return Number(given);
}

/** What the command line names: one topic, one source, or everything. */
function chosenControl({ values, terminal }: CommandInput) {
  const topic = text(values, "topic");
  const source = text(values, "source");
  if ([topic, source, values.all || undefined].filter((one) => one !== undefined).length !== 1)
    throw new UsageError("Name one of --topic TOPIC, --source SOURCE and --all.");
  let target: ControlTarget = "all";
  let what = "all messages";
  if (topic !== undefined) [target, what] = [{ topic }, `the topic "${topic}"`];
  if (source !== undefined) [target, what] = [{ source }, `the source "${source}"`];
  return {
    target,
    what: printable(what),
    queues: queuesOf(values),
    options: { by: operatorName(values), signal: terminal.signal },
  };
}
