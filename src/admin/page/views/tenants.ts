import { api, remember } from "../api.js";
import { element } from "../dom.js";
import { duration, number } from "../format.js";
import { button, nextPage, stateBadge, table } from "../parts.js";
import { linkTo, queueName, queues } from "../routes.js";
import type { View } from "../shell.js";
import type { QueueReport, Tenant } from "../wire.js";

export const tenants: View = {
  title: "Tenants",
  async show({ route, signal }) {
    const { after } = route.query;
    const page = await api.tenants(after === undefined ? {} : { after }, { signal });
    return [
      element(
        "section",
        { class: "card", "aria-label": "Tenants" },
        table(
          "Tenants",
          [
            { name: "Tenant", cellClass: "key", cell: ({ tenant }) => tenant },
            {
              name: "State",
              cell: ({ state, reason }) => [stateBadge(state), reason !== undefined && ` ${reason}`],
            },
            ...queues.map((queue) => ({
              name: queueName[queue],
              cell: (tenant: Tenant) => reportText(tenant[queue]),
            })),
            { name: "Action", cell: openButton },
          ],
          page.tenants,
          "This app has one database and no tenants.",
        ),
        nextPage(route, page.cursor),
      ),
    ];
  },
};

function reportText(report: QueueReport | undefined): string {
  if (report === undefined) return "–";
  const { due, oldestDueAgeMs, pausedMessages, dead } = report;
  const age = oldestDueAgeMs === null ? "" : `, the oldest for ${duration(oldestDueAgeMs)}`;
  const paused = pausedMessages === 0 ? "" : `; ${number(pausedMessages)} paused`;
  return `${number(due)} due${age}${paused}; ${number(dead)} dead`;
}

const openButton = ({ tenant }: Tenant): HTMLElement =>
  button(
    "Open",
    () => {
      remember("tenant", tenant);
      location.hash = linkTo("overview");
      location.reload();
    },
    { "aria-label": `Open the tenant ${tenant}` },
  );
