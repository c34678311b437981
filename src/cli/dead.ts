import { changeDead, changeHelp, changeOptions } from "./change-dead.js";
import { type Command, type CommandInput, databaseHelp, oneOf, UsageError, type Values } from "./command.js";
import { listDeadGroups } from "./dead-groups.js";
import { listOperations } from "./dead-operations.js";
import { editDead, editHelp, editOptions } from "./edit-dead.js";
import { listMessages, pageHelp, pageOptions } from "./list.js";
import { filterHelp, filterOptions, groupHelp, groupOptions, queuesOf } from "./message-filter.js";
import { storeHelp, storeOptions } from "./queue-stores.js";
import { showHelp, showMessage, showOptions } from "./show.js";

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
  words: actionNames,
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
