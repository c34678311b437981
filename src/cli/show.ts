import { withPhases } from "../admin/list-phased.js";
import { keyText } from "../admin/page/key-text.js";
import { queueOf } from "../queue/any-queue.js";
import { type Command, type CommandInput, exitCodes } from "./command.js";
import { getMessage, keyForms, parseKey } from "./message-key.js";
import { messageLines, shownMessage } from "./message-output.js";
import { storeHelp, storeOptions, withStores } from "./queue-stores.js";

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
    if ("endedAs" in message && message.endedAs !== null)
      terminal.err("Its content and its failed attempts are in the table of archived messages.");
    return exitCodes.ok;
  });
}
