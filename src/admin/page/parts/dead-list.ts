import { announce } from "../announce.js";
import { api } from "../api.js";
import { element, replaceContent } from "../dom.js";
import { count, number } from "../format.js";
import { keyText } from "../key-text.js";
import { linkTo } from "../routes.js";
import { doneWord } from "../running-operations.js";
import type { ViewContext } from "../view.js";
import {
  actionNames,
  type BulkAction,
  bulkActions,
  keyOf,
  type ListedMessage,
  type MessagePage,
} from "../wire.js";
import { button } from "./button.js";
import { changeDialog } from "./change-dialogs.js";
import { messageLink } from "./message-link.js";
import { table } from "./table.js";
import { when } from "./time.js";

/** Check boxes for messages, and one for all of them. */
function selection(messages: readonly ListedMessage[], changed: () => void) {
  const checkbox = (
    attributes: { readonly id?: string; readonly "aria-label"?: string },
    change: () => void,
  ) => element("input", { type: "checkbox", ...attributes, on: { change } });
  const boxes = new Map(
    messages.map((message) => [
      message,
      checkbox({ "aria-label": `Select ${keyText(keyOf(message))}` }, () => update()),
    ]),
  );
  const all = checkbox({ id: "select-all" }, () => {
    for (const box of boxes.values()) box.checked = all.checked;
    update();
  });
  const selected = () => messages.filter((message) => boxes.get(message)!.checked);
  const update = () => {
    const some = selected().length;
    all.checked = some === messages.length;
    all.indeterminate = some > 0 && some < messages.length;
    changed();
  };
  return { all, box: (message: ListedMessage) => boxes.get(message)!, selected };
}

/** Dead messages one by one, to select and change. Null where there are none. */
export function deadList(context: ViewContext, { messages, cursor }: MessagePage): HTMLElement | null {
  if (messages.length === 0) return null;
  const { queue, query } = context.route;
  const bar = element("div", { class: "selection" });
  const { all, box, selected } = selection(messages, () => showBar());
  const change = async (action: BulkAction) => {
    const keys = selected().map(keyOf);
    if (!(await changeDialog(action, keys.length))) return;
    const { changed, lost } = await api.change(queue, action, keys);
    const notDead = lost.length === 0 ? "" : ` ${count(lost.length, "message")} no longer dead.`;
    announce(`${count(changed.length, "message")} ${doneWord(action)}.${notDead}`);
    context.reload();
  };
  const showBar = () => {
    const some = selected().length;
    replaceContent(
      bar,
      element("span", { role: "status" }, `${number(some)} of ${number(messages.length)} selected`),
      bulkActions.map((action) =>
        button(actionNames[action], () => change(action), {
          id: `${action}-selected`,
          disabled: some === 0,
          kind: action === "replay" ? "primary" : undefined,
        }),
      ),
    );
  };
  showBar();
  return element(
    "section",
    { class: "card", "aria-labelledby": "list-title" },
    element(
      "div",
      { class: "heading" },
      element("h2", { id: "list-title" }, "Messages"),
      element("label", {}, all, " Select all shown"),
    ),
    bar,
    table(
      "Dead messages",
      [
        { name: "Select", class: "check", cell: box },
        { name: "Message", cell: (message) => messageLink(queue, keyOf(message)) },
        { name: "Topic", cell: ({ topic }) => topic },
        {
          name: "Error",
          class: "wide",
          cellClass: "error-text",
          cell: ({ lastError }) => lastError ?? "no error",
        },
        { name: "Attempts used", class: "number", cell: ({ attempt }) => number(attempt) },
        { name: "Died", cell: ({ diedAt }) => when(diedAt) },
      ],
      messages,
      "",
    ),
    cursor !== null &&
      element(
        "p",
        { class: "pages" },
        element("a", { href: linkTo("dead", queue, { ...query, after: cursor }) }, "Next page"),
      ),
  );
}
