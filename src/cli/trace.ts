import { keyText } from "../admin/page/key-text.js";
import { type PhasedStep, phasedWay } from "../admin/phased-way.js";
import { type Command, exitCodes, UsageError } from "./command.js";
import { storeHelp, storeOptions, withStores } from "./queue-stores.js";
import { tableLines } from "./table.js";

export const traceCommand: Command = {
  name: "trace",
  summary: "show the way of one event through inbox and outbox, with times",
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
      const way = await phasedWay(stores, id, { signal: terminal.signal });
      if (values.json)
        for (const { key, ...step } of way) terminal.out(JSON.stringify({ ...step, key: keyText(key) }));
      else if (way.length > 0)
        for (const line of tableLines(head, way.map(row), terminal.columns)) terminal.out(line);
      if (way.length > 0) return exitCodes.ok;
      terminal.err(`No message has the correlation id, message id or id "${id}".`);
      return exitCodes.failed;
    });
  },
};

const head = ["QUEUE", "MESSAGE", "TOPIC", "STATE", "ENQUEUED", "FIRST ATTEMPT", "ENDED", "DEAD", "ERROR"];

const at = (time: Date | null): string => time?.toISOString() ?? "";

const row = (step: PhasedStep): readonly string[] => [
  step.queue,
  keyText(step.key),
  step.topic,
  step.phase,
  at(step.enqueuedAt),
  at(step.firstAttemptAt),
  at(step.doneAt),
  at(step.diedAt),
  step.lastError ?? "",
];
