import { queueOf } from "../queue/any-queue.js";
import { type Command, exitCodes, text, UsageError, type Values } from "./command.js";
import { chosenControl, controlHelp, controlOptions } from "./control-options.js";
import { controlLine } from "./control-output.js";
import { operatorName } from "./operator-name.js";
import { withStores } from "./queue-stores.js";
import { printable } from "./table.js";

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
