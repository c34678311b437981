import { keyText } from "../admin/page/key-text.js";
import { withPhases } from "../admin/phases.js";
import { omitUndefined } from "../base/defined.js";
import type { BulkAction, EditedContent } from "../queue/operators.js";
import { type AnyMessage, type AnyQueue, deadState, type QueueKind } from "../queue/work-store.js";
import {
  type Command,
  type CommandInput,
  exitCodes,
  flag,
  option,
  UsageError,
  type Values,
} from "./command.js";
import { changeMany, listOperations, pastOf, resumeChange, sentenceOf } from "./dead-operations.js";
import { withStores } from "./load-app.js";
import { listDead, listDeadGroups, pageOptions, showMessage, showOptions } from "./messages.js";
import {
  byOption,
  count,
  filterOptions,
  givenText,
  groupOption,
  type MessageKey,
  oneOf,
  operatorName,
  parseKey,
  print,
  readGivenFile,
  storeOptions,
  text,
} from "./terminal.js";

const deadOptions = { ...filterOptions, ...groupOption };

const changeOptions = {
  all: flag("replay, discard or archive without a condition"),
  "dry-run": flag("say how many messages it would be, and change none"),
  rate: option("the most messages per second"),
  resume: option("go on with the operation of this id, as `dead operations` prints it"),
  ...byOption,
};

/** A payload is read from a file: a command line is seen by others, and kept in the shell's history. */
const editOptions = {
  "payload-file": option("a file with the new payload, as it is (edit)"),
  "headers-file": option("a file with all new headers as a JSON object of texts (edit)"),
  "new-topic": option("the topic of the new message (edit)"),
};

interface Action {
  /** Those that it takes besides the options of the database. */
  readonly options: Command["options"];
  readonly takesKey: boolean;
  readonly run: Command["run"];
}

const { queue, source } = filterOptions;
const { limit } = pageOptions;

const changing = (change: BulkAction): Action => ({
  options: { ...deadOptions, ...changeOptions },
  takesKey: true,
  run: (input) => changeDead(change, input),
});

/** What `oncebox dead` does. */
const actions: Readonly<Record<string, Action>> = {
  list: { options: { ...deadOptions, ...pageOptions }, takesKey: false, run: listDead },
  groups: { options: { ...deadOptions, limit }, takesKey: false, run: listDeadGroups },
  show: { options: showOptions, takesKey: true, run: (input) => showMessage(input, input.positionals[1]) },
  replay: changing("replay"),
  discard: changing("discard"),
  archive: changing("archive"),
  edit: { options: { ...editOptions, ...byOption, source }, takesKey: true, run: editDead },
  operations: { options: { queue, limit }, takesKey: false, run: listOperations },
};

export const deadCommand: Command = {
  name: "dead",
  summary:
    "list, group, show, replay, discard, archive and edit dead messages; list what operators have done",
  usage: `dead ${Object.keys(actions).join("|")} [KEY] [options]`,
  options: {
    ...deadOptions,
    ...pageOptions,
    ...showOptions,
    ...changeOptions,
    ...editOptions,
    ...storeOptions,
    limit: option("the most lines of each queue, or of operations; 50 by default, 1000 at most"),
    payload: flag(`${showOptions.payload.help} (show)`),
    source: option(`${source.help}; with KEY, its source, and KEY is only the message id`),
    json: flag("print JSON; list, groups and operations print one object per line"),
  },
  examples: [
    "oncebox dead list --topic stripe.invoice.paid --newer-than 1d",
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
    const name = oneOf(Object.keys(actions), input.positionals[0], "The first argument");
    const { options, takesKey, run } = actions[name]!;
    // An option that the action would ignore is a mistake: `dead replay --limit 5` must not replay them all.
    const others = Object.keys(input.values).filter((given) => !(given in options || given in storeOptions));
    if (others.length > 0)
      throw new UsageError(`dead ${name} has no option ${others.map((other) => `--${other}`).join(", ")}.`);
    if (!takesKey && input.positionals[1] !== undefined)
      throw new UsageError(`dead ${name} takes no KEY. \`oncebox dead show KEY\` shows one message.`);
    return run(input);
  },
};

/** Replays, discards or archives the message that KEY names, those that the conditions find, or the rest of an operation. */
async function changeDead(change: BulkAction, input: CommandInput): Promise<number> {
  const { values, positionals } = input;
  const key = positionals[1];
  const rate = count(values, "rate");
  const conditions = Object.keys(values).filter((name) => name !== "queue" && name in deadOptions);
  if (rate === 0) throw new UsageError("--rate must be 1 or more.");
  if (values.resume !== undefined) {
    if (conditions.length > 0 || key !== undefined || values.all || values["dry-run"])
      throw new UsageError(
        "With --resume give only --queue, --rate and --by. The rest is in the operation's record.",
      );
    return resumeChange(change, input, rate);
  }
  if (key !== undefined) {
    if (conditions.some((name) => name !== "source") || values.all || values.queue !== undefined)
      throw new UsageError("Give KEY, or conditions or --all, not both.");
    if (values["dry-run"] || rate !== undefined)
      throw new UsageError(`dead ${change} takes --dry-run and --rate with conditions only.`);
    return changeOne(change, input, parseKey(key, values));
  }
  // A queue is no condition: what was meant may have been forgotten.
  if (conditions.length === 0 && !values.all)
    throw new UsageError(`dead ${change} needs KEY, a condition such as --topic, or --all.`);
  return changeMany(change, input, rate);
}

const changeOne = (change: BulkAction, input: CommandInput, named: MessageKey): Promise<number> =>
  withDead(input, named, pastOf[change], async (queue) => {
    const { changed } = await queue[change]([named.key], { by: operatorName(input.values) });
    if (changed.length === 0) return false;
    print(input, { [pastOf[change]]: 1 }, `${sentenceOf[change]} ${keyText(named.key)}.`);
    return true;
  });

/** Enqueues a new message with other content, and archives the dead one that KEY names. */
async function editDead(input: CommandInput): Promise<number> {
  const { values, positionals } = input;
  const named = parseKey(positionals[1], values);
  const by = operatorName(values);
  if (Object.keys(editOptions).every((name) => values[name] === undefined))
    throw new UsageError(
      "dead edit needs --payload-file, --headers-file or --new-topic. Without a change, use dead replay.",
    );
  return withDead(input, named, "edited", async (queue) => {
    if ((await queue.get(named.key))?.state !== deadState[named.queue]) return false;
    const key = keyText(await queue.editAndReplay(named.key, await editedContent(values), { by }));
    print(input, { key }, `Replayed ${keyText(named.key)} as ${key}. The dead message is archived.`);
    return true;
  });
}

async function editedContent(values: Values): Promise<EditedContent> {
  const headers = await textOfFile(values, "headers-file");
  return omitUndefined({
    topic: givenText(values, "new-topic"),
    payload: await textOfFile(values, "payload-file"),
    headers: headers === undefined ? undefined : parseHeaders(headers),
  });
}

async function textOfFile(values: Values, name: string): Promise<string | undefined> {
  const file = text(values, name);
  if (file === undefined) return undefined;
  const bytes = await readGivenFile(file, `--${name} ${file}`);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new UsageError(`--${name} ${file} is not UTF-8 text.`);
  }
}

/** The error does not quote the file: headers may be secrets. The store checks that all values are texts. */
function parseHeaders(json: string): Readonly<Record<string, string>> {
  try {
    return JSON.parse(json);
  } catch {
    throw new UsageError("--headers-file must have a JSON object of texts.");
  }
}

/** Does something with one dead message, or says why it could not. `change` returns whether it was done. */
const withDead = (
  input: CommandInput,
  { queue: kind, key }: MessageKey,
  past: string,
  change: (queue: AnyQueue) => Promise<boolean>,
): Promise<number> =>
  withStores(input, async (stores) => {
    const queue = stores[kind];
    if (await change(queue)) return exitCodes.ok;
    input.terminal.err(`${keyText(key)} was not ${past}. ${await whyNot(queue, kind, await queue.get(key))}`);
    return exitCodes.failed;
  });

async function whyNot(queue: AnyQueue, kind: QueueKind, message: AnyMessage | null): Promise<string> {
  if (message === null) return `It is not in the ${kind}.`;
  if (message.state === deadState[kind]) return "It died only now. Try again.";
  const [phased] = await withPhases(queue, [message]);
  return `It is not dead but ${phased!.phase}.`;
}
