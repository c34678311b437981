import type { Filter } from "./api.js";
import { type Child, element } from "./dom.js";
import { conditionTexts, count } from "./format.js";
import { field } from "./parts.js";
import { actionNames, type BulkAction } from "./wire.js";

interface DialogOptions {
  readonly title: string;
  readonly content: Child;
  readonly confirm: string;
  readonly danger?: boolean;
  /** Nothing can be confirmed. */
  readonly disabled?: boolean;
}

let number = 0;

/** Asks before something is done. Resolves to whether it was confirmed; Escape means no. */
function ask({ title, content, confirm, danger = false, disabled = false }: DialogOptions): Promise<boolean> {
  return new Promise((resolve) => {
    const id = `dialog-${++number}`;
    const dialog = element(
      "dialog",
      { class: "dialog", "aria-labelledby": id, on: { close: () => finish() } },
      element(
        "form",
        { method: "dialog" },
        element("h2", { id }, title),
        content,
        element(
          "div",
          { class: "actions" },
          // The first button that submits is what Enter does in a field: the cautious one where data would be lost.
          element(
            "button",
            { type: danger ? "submit" : "button", value: "no", on: { click: () => dialog.close("no") } },
            "Cancel",
          ),
          element("button", { value: "yes", class: danger ? "danger" : "primary", disabled }, confirm),
        ),
      ),
    );
    const before = document.activeElement;
    const finish = () => {
      dialog.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      resolve(dialog.returnValue === "yes");
    };
    document.body.append(dialog);
    dialog.showModal();
  });
}

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
