import { announce } from "../announce.js";
import { api, type Filter } from "../api.js";
import { element, replaceContent } from "../dom.js";
import { count, number } from "../format.js";
import { button } from "../parts/button.js";
import { bulkDialog, changeDialog } from "../parts/change-dialogs.js";
import { filterForm, filterOf } from "../parts/filter-form.js";
import { messageLink } from "../parts/message-link.js";
import { operationsSection } from "../parts/operations-section.js";
import { queueTabs } from "../parts/queue-tabs.js";
import { table } from "../parts/table.js";
import { when } from "../parts/time.js";
import { linkTo, type Queue } from "../routes.js";
import { doneWord, startOperation } from "../running-operations.js";
import type { View, ViewContext } from "../view.js";
import {
  type BulkAction,
  bulkActions,
  type DeadGroup,
  deadState,
  keyOf,
  keyText,
  type ListedMessage,
} from "../wire.js";

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
        { ...filter, state: deadState[queue], limit: pageSize, after: route.query.after },
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
      listSection(context, page.messages, page.cursor),
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
  return element(
    "section",
    { class: "card", "aria-labelledby": "groups-title" },
    element(
      "div",
      { class: "heading" },
      element("h2", { id: "groups-title" }, "By error"),
      total > 0 && element("div", { class: "actions" }, bulkButtons(context, filter)),
    ),
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

const labels: Readonly<Record<BulkAction, string>> = {
  replay: "Replay",
  discard: "Discard",
  archive: "Archive",
};

/** Each asks for the number of messages first: the dry run. */
const bulkButtons = (context: ViewContext, filter: Filter): readonly HTMLElement[] =>
  bulkActions.map((action) =>
    button(
      `${labels[action]} all…`,
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

function listSection(
  context: ViewContext,
  messages: readonly ListedMessage[],
  cursor: number | null,
): HTMLElement | null {
  if (messages.length === 0) return null;
  const { queue, query } = context.route;
  const selected = new Set<ListedMessage>();
  const bar = element("div", { class: "selection" });
  const boxes = new Map(
    messages.map((message) => [
      message,
      element("input", {
        type: "checkbox",
        "aria-label": `Select ${keyText(keyOf(message))}`,
        on: {
          change() {
            if (boxes.get(message)!.checked) selected.add(message);
            else selected.delete(message);
            showBar();
          },
        },
      }),
    ]),
  );
  const selectAll = element("input", {
    type: "checkbox",
    id: "select-all",
    on: {
      change() {
        for (const [message, box] of boxes) {
          box.checked = selectAll.checked;
          if (selectAll.checked) selected.add(message);
          else selected.delete(message);
        }
        showBar();
      },
    },
  });
  const showBar = () => {
    selectAll.checked = selected.size === messages.length;
    selectAll.indeterminate = selected.size > 0 && selected.size < messages.length;
    replaceContent(
      bar,
      element("span", { role: "status" }, `${number(selected.size)} of ${number(messages.length)} selected`),
      bulkActions.map((action) =>
        button(labels[action], () => change(action), {
          id: `${action}-selected`,
          disabled: selected.size === 0,
          kind: action === "replay" ? "primary" : undefined,
        }),
      ),
    );
  };
  const change = async (action: BulkAction) => {
    const keys = [...selected].map(keyOf);
    if (!(await changeDialog(action, keys.length))) return;
    const { changed, lost } = await api.change(queue, action, keys);
    const notDead = lost.length === 0 ? "" : ` ${count(lost.length, "message")} no longer dead.`;
    announce(`${count(changed.length, "message")} ${doneWord(action)}.${notDead}`);
    context.reload();
  };
  showBar();
  return element(
    "section",
    { class: "card", "aria-labelledby": "list-title" },
    element(
      "div",
      { class: "heading" },
      element("h2", { id: "list-title" }, "Messages"),
      element("label", { class: "select-all" }, selectAll, " Select all shown"),
    ),
    bar,
    table(
      "Dead messages",
      [
        { name: "Select", class: "check", cell: (message) => boxes.get(message) },
        { name: "Message", cell: (message) => messageLink(queue, keyOf(message)) },
        { name: "Topic", cell: ({ topic }) => topic },
        {
          name: "Error",
          class: "wide",
          cellClass: "error-text",
          cell: ({ lastError }) => lastError ?? "no error",
        },
        { name: "Attempts", class: "number", cell: ({ attempt }) => number(attempt) },
        { name: "Died", cell: ({ lastAttemptAt }) => when(lastAttemptAt) },
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
