import type { Change } from "./change.js";
import { changeMany, resumeChange } from "./change-many.js";
import { changeOne } from "./change-one.js";
import { type CommandInput, count, UsageError, type Values } from "./command.js";
import { filterOptions, groupOptions } from "./message-filter.js";
import { parseKey } from "./message-key.js";
import { withStores } from "./queue-stores.js";

export const changeOptions = {
  all: { type: "boolean" },
  "dry-run": { type: "boolean" },
  rate: { type: "string" },
  by: { type: "string" },
  resume: { type: "string" },
} as const;

export const changeHelp = {
  all: "replay, discard or archive without a condition",
  "dry-run": "say how many messages it would be, and change none",
  rate: "the most messages per second",
  by: "who does or resumes it, for the record; the user of this process by default",
  resume: "go on with the operation of this id, as `dead operations` prints it",
};

/** Replays, discards or archives the message that KEY names, those that the conditions find, or the rest of an operation. */
export async function changeDead(change: Change, input: CommandInput): Promise<number> {
  const { values, positionals } = input;
  const key = positionals[1];
  const rate = count(values, "rate");
  if (rate === 0) throw new UsageError("--rate must be 1 or more.");
  if (values.resume !== undefined) {
    refuseWithResume(values, key);
    return withStores(input, (stores) => resumeChange(change, input, stores, rate));
  }
  if (key !== undefined) {
    refuseWithKey(change, values);
    return withStores(input, (stores) => changeOne(change, input, stores, parseKey(key, values)));
  }
  if (conditionsOf(values).length === 0 && !values.all)
    throw new UsageError(`dead ${change} needs KEY, a condition such as --topic, or --all.`);
  return withStores(input, (stores) => changeMany(change, input, stores, rate));
}

/** A queue alone is no condition: what was meant may have been forgotten. */
const conditionsOf = (values: Values): readonly string[] =>
  Object.keys(values).filter((name) => name !== "queue" && (name in filterOptions || name in groupOptions));

function refuseWithResume(values: Values, key: string | undefined): void {
  const others = [...conditionsOf(values), ...["all", "dry-run"].filter((name) => name in values)];
  if (others.length > 0 || key !== undefined)
    throw new UsageError(
      "Beside --resume give --queue, --rate and --by alone. The rest is in the operation's record.",
    );
}

function refuseWithKey(change: Change, values: Values): void {
  const others = conditionsOf(values).filter((name) => name !== "source");
  if (others.length > 0 || values.all || values.queue !== undefined)
    throw new UsageError("Give KEY, or conditions or --all, not both.");
  if (values["dry-run"] || values.rate !== undefined)
    throw new UsageError(`dead ${change} takes --dry-run and --rate with conditions only.`);
}
