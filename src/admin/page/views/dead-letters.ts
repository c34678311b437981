import { api, type Filter } from "../api.js";
import { element } from "../dom.js";
import { number } from "../format.js";
import { button } from "../parts/button.js";
import { bulkDialog } from "../parts/change-dialogs.js";
import { deadList } from "../parts/dead-list.js";
import { filterForm, filterOf } from "../parts/filter-form.js";
import { operationsSection } from "../parts/operations-section.js";
import { queueTabs } from "../parts/queue-tabs.js";
import { table } from "../parts/table.js";
import { when } from "../parts/time.js";
import { linkTo, type Queue } from "../routes.js";
import { startOperation } from "../running-operations.js";
import type { View, ViewContext } from "../view.js";
import { actionNames, bulkActions, type DeadGroup } from "../wire.js";

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
