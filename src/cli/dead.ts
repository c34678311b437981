import { type Command, type CommandInput, databaseHelp, oneOf, UsageError, type Values } from "./command.js";
import { listMessages, pageHelp, pageOptions } from "./list.js";
import { deadState, filterHelp, filterOptions, queuesOf } from "./message-filter.js";
import { storeHelp, storeOptions } from "./queue-stores.js";
import { replayMessages, replayOptions, replayOptionsHelp } from "./replay.js";
import { showHelp, showMessage, showOptions } from "./show.js";

/** What `oncebox dead` does, and the options that each takes besides those of the database. */
const actions = {
  list: { options: { ...filterOptions, ...pageOptions }, run: listDead },
  show: { options: showOptions, run: (input: CommandInput) => showMessage(input, input.positionals[1]) },
  replay: { options: { ...filterOptions, ...replayOptions }, run: replayMessages },
} as const;
type Action = keyof typeof actions;
export const deadActions = Object.keys(actions) as readonly Action[];

export const deadCommand: Command = {
  name: "dead",
  summary: "list, show and replay dead messages",
  usage: "dead list|show|replay [KEY] [options]",
  options: { ...filterOptions, ...pageOptions, ...showOptions, ...replayOptions, ...storeOptions },
  help: {
    ...filterHelp,
    ...pageHelp,
    ...replayOptionsHelp,
    ...storeHelp,
    payload: `${showHelp.payload} (show)`,
    source: `${filterHelp.source}; with KEY, its source, and KEY is the message id alone`,
    json: `${databaseHelp.json}; list prints one object per line`,
  },
  examples: [
    "oncebox dead list --topic payment.received --newer-than 1d",
    "oncebox dead show stripe/evt_1 --payload",
    "oncebox dead replay stripe/evt_1",
    'oncebox dead replay --error "timed out" --dry-run',
    'oncebox dead replay --error "timed out" --rate 20',
  ],
  positionals: 2,
  words: deadActions,
  async run(input) {
    const action = oneOf(deadActions, input.positionals[0], "The first argument");
    refuseOthers(action, input.values);
    if (action === "list" && input.positionals[1] !== undefined)
      throw new UsageError("dead list takes no KEY. `oncebox dead show KEY` shows one message.");
    return actions[action].run(input);
  },
};

/** An option that the action would ignore is a mistake: `dead replay --limit 5` must not replay them all. */
function refuseOthers(action: Action, values: Values): void {
  const known = [...Object.keys(actions[action].options), ...Object.keys(storeOptions)];
  const others = Object.keys(values).filter((name) => !known.includes(name));
  if (others.length > 0)
    throw new UsageError(`dead ${action} has no option ${others.map((name) => `--${name}`).join(", ")}.`);
}

function listDead(input: CommandInput): Promise<number> {
  const queues = queuesOf(input.values).map((queue) => ({ queue, state: deadState[queue] }));
  return listMessages(input, queues);
}
