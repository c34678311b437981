import { api } from "../api.js";
import { element } from "../dom.js";
import { number } from "../format.js";
import { filterForm, filterOf } from "../parts/filter-form.js";
import { messageLink } from "../parts/message-link.js";
import { queueTabs } from "../parts/queue-tabs.js";
import { stateBadge } from "../parts/state-badge.js";
import { table } from "../parts/table.js";
import { when } from "../parts/time.js";
import { linkTo } from "../routes.js";
import type { View } from "../view.js";
import { keyOf } from "../wire.js";

const pageSize = 50;

export const messages: View = {
  title: "Messages",
  async show({ route, signal }) {
    const { queue, query } = route;
    const { state, after } = query;
    const page = await api.messages(queue, { ...filterOf(route), state, after, limit: pageSize }, { signal });
    return [
      queueTabs(route),
      filterForm(route, { withState: true }),
      element(
        "section",
        { class: "card", "aria-label": "Messages" },
        table(
          "Messages",
          [
            { name: "Message", cell: (message) => messageLink(queue, keyOf(message)) },
            { name: "Topic", cell: ({ topic }) => topic },
            { name: "State", cell: (message) => stateBadge(message.phase) },
            { name: "Attempts used", class: "number", cell: ({ attempt }) => number(attempt) },
            {
              name: "Error",
              class: "wide",
              cellClass: "error-text",
              cell: ({ lastError }) => lastError ?? "",
            },
            {
              name: queue === "inbox" ? "Received" : "Enqueued",
              cell: ({ firstSeenAt, createdAt }) => when(firstSeenAt ?? createdAt ?? null),
            },
          ],
          page.messages,
          "No messages match.",
        ),
        page.cursor !== null &&
          element(
            "p",
            { class: "pages" },
            element("a", { href: linkTo("messages", queue, { ...query, after: page.cursor }) }, "Next page"),
          ),
      ),
    ];
  },
};
