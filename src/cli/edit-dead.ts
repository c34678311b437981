import { readFile } from "node:fs/promises";
import { keyText } from "../admin/page/key-text.js";
import { defined } from "../base/defined.js";
import { deadState, queueOf } from "../queue/any-queue.js";
import type { EditedContent } from "../queue/dead-letters.js";
import { notDead } from "./change-one.js";
import { type CommandInput, exitCodes, text, UsageError, type Values } from "./command.js";
import { getMessage, parseKey } from "./message-key.js";
import { operatorName } from "./operator-name.js";
import { withStores } from "./queue-stores.js";

/** A payload is read from a file: a command line is seen by others, and kept in the shell's history. */
export const editOptions = {
  "payload-file": { type: "string" },
  "headers-file": { type: "string" },
  "new-topic": { type: "string" },
} as const;

export const editHelp = {
  "payload-file": "a file with the new payload, as it is (edit)",
  "headers-file": "a file with all new headers as a JSON object of texts (edit)",
  "new-topic": "the topic of the new message (edit)",
};

/** Enqueues a new message with other content, and archives the dead one that KEY names. */
export async function editDead(input: CommandInput): Promise<number> {
  const { values, terminal } = input;
  const named = parseKey(input.positionals[1], values);
  const by = operatorName(values);
  if (Object.keys(editOptions).every((name) => values[name] === undefined))
    throw new UsageError(
      "dead edit needs --payload-file, --headers-file or --new-topic. Without a change, use dead replay.",
    );
  return withStores(input, async (stores) => {
    const changes = await changesOf(values);
    const message = await getMessage(stores, named);
    if (message?.state !== deadState[named.queue]) {
      terminal.err(await notDead("edited", stores, named, message));
      return exitCodes.failed;
    }
    const made = await queueOf(stores, named.queue).editAndReplay(named.key, changes, { by });
    const key = keyText(made);
    terminal.out(
      values.json
        ? JSON.stringify({ key })
        : `Replayed ${keyText(named.key)} as ${key}. The dead message is archived.`,
    );
    return exitCodes.ok;
  });
}

async function changesOf(values: Values): Promise<EditedContent> {
  const topic = text(values, "new-topic");
  if (topic === "") throw new UsageError("--new-topic is empty.");
  const headers = await fileOf(values, "headers-file");
  return defined({
    topic,
    payload: await fileOf(values, "payload-file"),
    headers: headers === undefined ? undefined : headersOf(headers),
  });
}

async function fileOf(values: Values, option: string): Promise<string | undefined> {
  const file = text(values, option);
  if (file === undefined) return undefined;
  const bytes = await readFile(file).catch(({ code }: NodeJS.ErrnoException) => {
    throw new UsageError(`--${option} ${file} cannot be read: ${code}.`);
  });
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new UsageError(`--${option} ${file} is not UTF-8 text.`);
  }
}

/** The error does not quote the file: headers may be secrets. The store checks that all values are texts. */
function headersOf(json: string): Readonly<Record<string, string>> {
  try {
    return JSON.parse(json);
  } catch {
    throw new UsageError("--headers-file must have a JSON object of texts.");
  }
}
