import { readFile } from "node:fs/promises";
import { keyText } from "../admin/page/key-text.js";
import { omitUndefined } from "../base/defined.js";
import type { EditedContent } from "../queue/operators.js";
import { deadState, queueOf } from "../queue/work-store.js";
import {
  type Command,
  type CommandInput,
  databaseHelp,
  exitCodes,
  oneOf,
  text,
  UsageError,
  type Values,
} from "./command.js";
import { changeDead, changeHelp, changeOptions, listOperations, notDead } from "./dead-changes.js";
import { storeHelp, storeOptions, withStores } from "./load-app.js";
import {
  filterHelp,
  filterOptions,
  getMessage,
  groupHelp,
  groupOptions,
  operatorName,
  parseKey,
  queuesOf,
} from "./message-options.js";
import {
  listDeadGroups,
  listMessages,
  pageHelp,
  pageOptions,
  showHelp,
  showMessage,
  showOptions,
} from "./messages.js";

/** A payload is read from a file: a command line is seen by others, and kept in the shell's history. */
const editOptions = {
  "payload-file": { type: "string" },
  "headers-file": { type: "string" },
  "new-topic": { type: "string" },
} as const;

const editHelp = {
  "payload-file": "a file with the new payload, as it is (edit)",
  "headers-file": "a file with all new headers as a JSON object of texts (edit)",
  "new-topic": "the topic of the new message (edit)",
};

/** Enqueues a new message with other content, and archives the dead one that KEY names. */
async function editDead(input: CommandInput): Promise<number> {
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
  return omitUndefined({
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

const { queue } = filterOptions;
const { limit } = pageOptions;
const { by } = changeOptions;
const { source } = showOptions;
const deadOptions = { ...filterOptions, ...groupOptions };

/** What `oncebox dead` does, and the options that each takes besides those of the database. */
const actions = {
  list: { options: { ...deadOptions, ...pageOptions }, takesKey: false, run: listDead },
  groups: { options: { ...deadOptions, limit }, takesKey: false, run: listDeadGroups },
  show: { options: showOptions, takesKey: true, run: (input) => showMessage(input, input.positionals[1]) },
  replay: {
    options: { ...deadOptions, ...changeOptions },
    takesKey: true,
    run: (input) => changeDead("replay", input),
  },
  discard: {
    options: { ...deadOptions, ...changeOptions },
    takesKey: true,
    run: (input) => changeDead("discard", input),
  },
  archive: {
    options: { ...deadOptions, ...changeOptions },
    takesKey: true,
    run: (input) => changeDead("archive", input),
  },
  edit: { options: { ...editOptions, by, source }, takesKey: true, run: editDead },
  operations: { options: { queue, limit }, takesKey: false, run: listOperations },
} as const satisfies Record<string, Action>;

interface Action {
  readonly options: Command["options"];
  readonly takesKey: boolean;
  readonly run: Command["run"];
}

type ActionName = keyof typeof actions;
const actionNames = Object.keys(actions) as readonly ActionName[];

export const deadCommand: Command = {
  name: "dead",
  summary:
    "list, group, show, replay, discard, archive and edit dead messages; list what operators have done",
  usage: `dead ${actionNames.join("|")} [KEY] [options]`,
  options: {
    ...deadOptions,
    ...pageOptions,
    ...showOptions,
    ...changeOptions,
    ...editOptions,
    ...storeOptions,
  },
  help: {
    ...filterHelp,
    ...groupHelp,
    ...pageHelp,
    ...changeHelp,
    ...editHelp,
    ...storeHelp,
    limit: "the most lines of each queue, or of operations; 50 by default, 1000 at most",
    payload: `${showHelp.payload} (show)`,
    source: `${filterHelp.source}; with KEY, its source, and KEY is the message id alone`,
    json: `${databaseHelp.json}; list, groups and operations print one object per line`,
  },
  examples: [
    "oncebox dead list --topic invoice.paid --newer-than 1d",
    "oncebox dead groups",
    "oncebox dead show stripe/evt_1 --payload",
    "oncebox dead replay stripe/evt_1",
    'oncebox dead replay --error "timed out" --dry-run',
    'oncebox dead replay --error "timed out" --rate 20',
    "oncebox dead discard --group 7a1c09be55d2f310 --by alice",
    "oncebox dead archive --older-than 30d",
    "oncebox dead edit stripe/evt_1 --payload-file corrected.json",
    "oncebox dead operations",
    "oncebox dead replay --resume 0190a5c2-7d3e-7b1a-9c4f-2e8d6a1b3c5d --by bob",
  ],
  positionals: 2,
  async run(input) {
    const name = oneOf(actionNames, input.positionals[0], "The first argument");
    refuseOthers(name, input.values);
    const { takesKey, run } = actions[name];
    if (!takesKey && input.positionals[1] !== undefined)
      throw new UsageError(`dead ${name} takes no KEY. \`oncebox dead show KEY\` shows one message.`);
    return run(input);
  },
};

/** An option that the action would ignore is a mistake: `dead replay --limit 5` must not replay them all. */
function refuseOthers(action: ActionName, values: Values): void {
  const known = [...Object.keys(actions[action].options), ...Object.keys(storeOptions)];
  const others = Object.keys(values).filter((name) => !known.includes(name));
  if (others.length > 0)
    throw new UsageError(`dead ${action} has no option ${others.map((name) => `--${name}`).join(", ")}.`);
}

function listDead(input: CommandInput): Promise<number> {
  const queues = queuesOf(input.values).map((kind) => ({ queue: kind, phase: "dead" as const }));
  return listMessages(input, queues);
}
