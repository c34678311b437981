import { api, type Filter } from "../api.js";
import { bulkDialog, changeDialog } from "../dialogs.js";
import { announce, element, replaceContent } from "../dom.js";
import { count, number } from "../format.js";
import { keyText } from "../key-text.js";
import { doneWord, operationsSection, startOperation } from "../operations.js";
import { button, card, errorColumn, messageLink, nextPage, queueTabs, table, when } from "../parts.js";
import { linkTo, type Queue } from "../routes.js";
import type { View, ViewContext } from "../shell.js";
import {
  actionNames,
  type BulkAction,
  bulkActions,
  type DeadGroup,
  keyOf,
  type ListedMessage,
  type MessagePage,
} from "../wire.js";
import { filterForm, filterOf } from "./messages.js";

const pageSize = 50;

export const deadLetters: View = {
  title: "Dead letters",
  async show(context) {
    const { route, signal } = context;
    const { queue } = route;
    const filter = filterOf(route);
    const [groups, page, operations] = await Promise.all([
      api.groups(queue, filter, { signal }),
      api.messages(
        queue,
        { ...filter, state: "dead", limit: pageSize, after: route.query.after },
        { signal },
      ),
      api.operations(queue, { signal }),
    ]);
    return [
      queueTabs(route),
      filterForm(route),
      filter.errorGroup !== undefined && groupNotice(queue, filter, groups),
      operationsSection(context, operations),
      groupsSection(context, groups, filter),
      deadList(context, page),
    ].filter((node) => node !== false && node !== null);
  },
};

function groupNotice(queue: Queue, filter: Filter, groups: readonly DeadGroup[]): HTMLElement {
  const { errorGroup: _, ...others } = filter;
  return element(
    "p",
    { class: "notice" },
    "Only messages that died of: ",
    element("q", { class: "error-text" }, groups[0]?.error ?? "no error"),
    " ",
    element("a", { href: linkTo("dead", queue, others) }, "Show all"),
  );
}

function groupsSection(context: ViewContext, groups: readonly DeadGroup[], filter: Filter): HTMLElement {
  const { queue } = context.route;
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  const beside = total > 0 && element("div", { class: "actions" }, bulkButtons(context, filter));
  return card(
    { id: "groups", title: "By error", beside },
    table(
      "Dead messages by error",
      [
        { name: "Messages", class: "number", cell: (group) => number(group.count) },
        {
          name: "Error",
          class: "wide",
          cell: ({ error, errorGroup }) =>
            element(
              "a",
              { class: "error-text", href: linkTo("dead", queue, { ...filter, errorGroup }) },
              error ?? "no error",
            ),
        },
        { name: "First", cell: ({ firstAt }) => when(firstAt) },
        { name: "Last", cell: ({ lastAt }) => when(lastAt) },
      ],
      groups,
      "There are no dead messages here.",
    ),
  );
}

/** Each asks for the number of messages first: the dry run. */
const bulkButtons = (context: ViewContext, filter: Filter): readonly HTMLElement[] =>
  bulkActions.map((action) =>
    button(
      `${actionNames[action]} all…`,
      async () => {
        const { queue } = context.route;
        const chosen = await bulkDialog(action, filter, await api.countDead(queue, filter));
        if (chosen === undefined) return;
        await startOperation(queue, action, filter, chosen.perSecond);
        if (!context.signal.aborted) context.reload();
      },
      { id: `${action}-all`, kind: action === "replay" ? "primary" : undefined },
    ),
  );

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
function deadList(context: ViewContext, { messages, cursor }: MessagePage): HTMLElement | null {
  if (messages.length === 0) return null;
  const { queue } = context.route;
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
  return card(
    { id: "list", title: "Messages", beside: element("label", {}, all, " Select all shown") },
    bar,
    table(
      "Dead messages",
      [
        { name: "Select", class: "check", cell: box },
        { name: "Message", cell: (message) => messageLink(queue, keyOf(message)) },
        { name: "Topic", cell: ({ topic }) => topic },
        errorColumn("no error"),
        { name: "Attempts used", class: "number", cell: ({ attempt }) => number(attempt) },
        { name: "Died", cell: ({ diedAt }) => when(diedAt) },
      ],
      messages,
      "",
    ),
    nextPage(context.route, cursor),
  );
}
