import { type QueueKind, queueOf } from "../queue/any-queue.js";
import { type Command, type CommandInput, exitCodes } from "./command.js";
import { chosenControl, controlHelp, controlOptions, inQueues } from "./control-options.js";
import { controlLine, shownControl } from "./control-output.js";
import { operatorName } from "./operator-name.js";
import { phaseLine } from "./phase-line.js";
import { type QueueStores, withStores } from "./queue-stores.js";
import { printable } from "./table.js";

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
        await printPhases(input, stores, queue, shownControl(control));
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
        const isResumed = resumed.wasPaused || resumed.returned > 0;
        if (!values.json && isResumed) terminal.out(`${queue.padEnd(7)} resumed ${printable(what)}`);
        if (values.json || isResumed) await printPhases(input, stores, queue, resumed);
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
