import type { Filter } from "../api.js";
import { type Child, element } from "../dom.js";
import { count } from "../format.js";
import { actionNames, type BulkAction } from "../wire.js";
import { conditionTexts } from "./conditions.js";
import { ask } from "./dialog.js";
import { field } from "./field.js";

const consequences: Readonly<Record<BulkAction, string>> = {
  replay: "They are handled again, with all their attempts.",
  discard: "They are deleted for good. If a provider sends one again, it is handled as a new message.",
  archive: "They move to the table of archived messages, and are not handled again.",
};

/** Asks about the messages that were selected. */
export const changeDialog = (action: BulkAction, messages: number): Promise<boolean> =>
  ask({
    title: `${actionNames[action]} ${count(messages, "message")}?`,
    content: element("p", {}, consequences[action]),
    confirm: `${actionNames[action]} ${count(messages, "message")}`,
    danger: action === "discard",
  });

function conditions(filter: Filter): Child {
  const texts = conditionTexts(filter);
  if (texts.length === 0)
    return element("p", {}, "No filter is set: these are all dead messages of the queue.");
  return element(
    "ul",
    {},
    texts.map((text) => element("li", {}, text)),
  );
}

/** Asks about all messages that match, and for the rate. Nothing is changed before it is confirmed. */
export async function bulkDialog(
  action: BulkAction,
  filter: Filter,
  matching: number,
): Promise<{ readonly perSecond: number | undefined } | undefined> {
  const rate = element("input", {
    id: "rate",
    type: "number",
    min: 1,
    max: 100_000,
    step: 1,
    placeholder: "no limit",
  });
  const confirmed = await ask({
    title: `${actionNames[action]} all that match`,
    content: [
      element(
        "p",
        { class: "dry-run" },
        element("strong", {}, `${count(matching, "message")} match${matching === 1 ? "es" : ""}`),
        " now.",
      ),
      conditions(filter),
      element("p", {}, consequences[action], " Messages that die meanwhile are not part of it."),
      field("Messages per second", rate, "Empty: as fast as the database allows."),
    ],
    confirm: `${actionNames[action]} ${count(matching, "message")}`,
    danger: action === "discard",
    disabled: matching === 0,
  });
  if (!confirmed) return undefined;
  return { perSecond: rate.value === "" ? undefined : Number(rate.value) };
}
