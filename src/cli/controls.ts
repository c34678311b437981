import { inboxPhases, phases } from "../queue/message.js";
import type { Control, ControlTarget } from "../queue/operators.js";
import { type QueueKind, type QueueStats, queueKinds, queueOf } from "../queue/work-store.js";
import { type Command, type CommandInput, exitCodes, text, UsageError, type Values } from "./command.js";
import { type QueueStores, storeHelp, storeOptions, withStores } from "./load-app.js";
import { operatorName, queuesOf } from "./message-options.js";
import { printable } from "./output.js";

/** The options of `pause`, `resume` and `limit`. */
const controlOptions = {
  topic: { type: "string" },
  source: { type: "string" },
  all: { type: "boolean" },
  queue: { type: "string" },
  by: { type: "string" },
  ...storeOptions,
} as const;

const controlHelp = {
  topic: "the messages of this topic",
  source: "the messages of this source, in the inbox",
  all: "all messages of the queue",
  queue: "inbox or outbox; both by default",
  by: "who does it, for the record that `oncebox dead operations` lists; your user name by default",
  ...storeHelp,
};

interface ChosenControl {
  readonly target: ControlTarget;
  /** Only the inbox has sources. */
  readonly queues: readonly QueueKind[];
  /** For people, such as `the topic "mail"`. */
  readonly what: string;
}

/** What the command line names: one topic, one source, or everything. */
function chosenControl(values: Values): ChosenControl {
  const topic = text(values, "topic");
  const source = text(values, "source");
  const given = [topic, source, values.all || undefined].filter((one) => one !== undefined);
  if (given.length !== 1) throw new UsageError("Name one of --topic TOPIC, --source SOURCE and --all.");
  if (topic !== undefined)
    return { target: { topic }, queues: queuesOf(values), what: `the topic "${topic}"` };
  if (source !== undefined)
    return { target: { source }, queues: queuesOf(values), what: `the source "${source}"` };
  return { target: "all", queues: queuesOf(values), what: "all messages" };
}

const inQueues = (queues: readonly QueueKind[]): string =>
  queues.length === queueKinds.length ? "inbox and outbox" : queues.join(" and ");

export const pauseCommand: Command = {
  name: "pause",
  summary: "stop claiming the messages of a topic, a source or a whole queue, in every process",
  usage: "pause --topic TOPIC | --source SOURCE | --all [--queue inbox|outbox] [options]",
  options: controlOptions,
  help: controlHelp,
  examples: [
    "oncebox pause --topic mail.welcome --queue outbox",
    "oncebox pause --source stripe --by alice",
    "oncebox pause --all --app dist/app.js --tenant acme",
  ],
  run(input) {
    const { values, terminal } = input;
    const { target, queues } = chosenControl(values);
    const options = { by: operatorName(values), signal: terminal.signal };
    return withStores(input, async (stores) => {
      for (const queue of queues) {
        const control = await queueOf(stores, queue).pause(target, options);
        if (!values.json) terminal.out(controlLine(queue, control));
        await printPhases(input, stores, queue, control);
      }
      return exitCodes.ok;
    });
  },
};

export const resumeCommand: Command = {
  name: "resume",
  summary: "end a pause, and return the messages that waited for it",
  usage: "resume --topic TOPIC | --source SOURCE | --all [--queue inbox|outbox] [options]",
  options: controlOptions,
  help: controlHelp,
  examples: [
    "oncebox resume --topic mail.welcome --queue outbox",
    "oncebox resume --source stripe",
    "oncebox resume --all --app dist/app.js --tenant acme --json",
  ],
  run(input) {
    const { values, terminal } = input;
    const { target, queues, what } = chosenControl(values);
    const options = { by: operatorName(values), signal: terminal.signal };
    return withStores(input, async (stores) => {
      let wasPaused = false;
      for (const queue of queues) {
        const resumed = await queueOf(stores, queue).resume(target, options);
        wasPaused ||= resumed.wasPaused;
        if (!values.json && resumed.wasPaused) terminal.out(`${queue.padEnd(7)} resumed ${printable(what)}`);
        if (values.json || resumed.wasPaused) await printPhases(input, stores, queue, resumed);
      }
      if (wasPaused) return exitCodes.ok;
      terminal.err(
        `There was no pause of ${printable(what)} in ${inQueues(queues)}. \`oncebox status\` shows what is paused.`,
      );
      return exitCodes.failed;
    });
  },
};

/** How the queue is now, in the words of `status`. */
async function printPhases(
  { values, terminal }: CommandInput,
  stores: QueueStores,
  queue: QueueKind,
  result: object,
): Promise<void> {
  const { phases } = await queueOf(stores, queue).stats({ signal: terminal.signal });
  terminal.out(values.json ? JSON.stringify({ queue, ...result, phases }) : phaseLine(queue, { phases }));
}

export const limitCommand: Command = {
  name: "limit",
  summary: "limit how many messages are claimed in a second, by all processes together",
  usage: "limit --topic TOPIC | --source SOURCE | --all --per-second N | --none [options]",
  options: { ...controlOptions, "per-second": { type: "string" }, none: { type: "boolean" } },
  help: {
    ...controlHelp,
    "per-second": "the most messages in a second, of each queue; 0.1 is one in ten seconds",
    none: "take the limit away",
  },
  examples: [
    "oncebox limit --topic mail.welcome --per-second 10 --queue outbox",
    "oncebox limit --all --per-second 50 --queue inbox --app dist/app.js --tenant acme",
    "oncebox limit --topic mail.welcome --none",
  ],
  run(input) {
    const { values, terminal } = input;
    const { target, queues, what } = chosenControl(values);
    const limit = { ...(target === "all" ? {} : target), perSecond: rateOf(values) };
    const options = { by: operatorName(values), signal: terminal.signal };
    return withStores(input, async (stores) => {
      for (const queue of queues) {
        const control = await queueOf(stores, queue).limit(limit, options);
        if (values.json) terminal.out(JSON.stringify({ queue, control }));
        else if (control === null) terminal.out(`${queue.padEnd(7)} no limit on ${printable(what)}`);
        else terminal.out(controlLine(queue, control));
      }
      return exitCodes.ok;
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

/** Such as `topic "mail": paused (12 waiting), by alice since 2026-01-02T03:04:05.000Z`. */
export function controlLine(queue: QueueKind, control: Control & { readonly tenant?: string }): string {
  const { scope, name, by, at, tenant } = control;
  const what = scope === "queue" ? "all messages" : `${scope} "${printable(name!)}"`;
  const where = tenant === undefined ? "" : `tenant ${printable(tenant)}, `;
  return `${queue.padEnd(7)} ${where}${what}: ${rulesOf(control)}, by ${printable(by)} since ${at.toISOString()}`;
}

const rulesOf = ({ paused, perSecond, waiting }: Control): string => {
  const limit = perSecond === null ? [] : [`at most ${perSecond} per second`];
  const rules = [...(paused ? ["paused"] : []), ...limit].join(", ");
  return waiting === 0 ? rules : `${rules} (${waiting} waiting)`;
};

/** Such as `inbox   waiting 3  retrying 1  running 2  paused 0  done 40  dead 5`. The phases of the inbox alone are shown where there are such messages. */
export function phaseLine(queue: QueueKind, stats: Pick<QueueStats<string>, "phases">): string {
  const shown = phases.filter((phase) => !inboxPhases.includes(phase) || stats.phases[phase] > 0);
  return `${queue.padEnd(7)} ${shown.map((phase) => `${phase} ${stats.phases[phase]}`).join("  ")}`;
}
