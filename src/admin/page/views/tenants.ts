import { api } from "../api.js";
import { element } from "../dom.js";
import { duration, number } from "../format.js";
import { button } from "../parts/button.js";
import { stateBadge } from "../parts/state-badge.js";
import { table } from "../parts/table.js";
import { remember } from "../session.js";
import type { View } from "../view.js";

export const tenants: View = {
  title: "Tenants",
  async show({ signal }) {
    const { tenants: all } = await api.tenants({ signal });
    return [
      element(
        "section",
        { class: "card", "aria-label": "Tenants" },
        table(
          "Tenants",
          [
            { name: "Tenant", class: "key", cell: ({ id }) => id },
            { name: "State", cell: ({ state }) => stateBadge(state) },
            {
              name: "Backlog",
              class: "number",
              cell: ({ backlog }) => (backlog === null ? "–" : number(backlog)),
            },
            {
              name: "Oldest waits",
              cell: ({ oldestDueAgeMs }) => (oldestDueAgeMs === null ? "–" : duration(oldestDueAgeMs)),
            },
            {
              name: "Action",
              cell: ({ id }) =>
                button(
                  "Open",
                  () => {
                    remember("tenant", id);
                    location.hash = "#/";
                  },
                  { "aria-label": `Open the tenant ${id}` },
                ),
            },
          ],
          all,
          "This app has one database and no tenants.",
        ),
      ),
    ];
  },
};
