import { api } from "../api.js";
import { element } from "../dom.js";
import { number } from "../format.js";
import { card, messageLink, queueTabs, stateBadge, table, when } from "../parts.js";
import type { View } from "../shell.js";
import type { BlockedPartition } from "../wire.js";

const reasons: Readonly<Record<BlockedPartition["reason"], string>> = {
  dead: "It is dead and blocks its key",
  leased: "It is being handled",
  paused: "A pause holds it",
  retrying: "It waits for its next attempt",
  scheduled: "It is not due yet",
};

export const partitions: View = {
  title: "Partition keys",
  async show({ route, signal }) {
    const { queue } = route;
    const blocked = await api.partitions(queue, { signal });
    return [
      queueTabs(route),
      card(
        { id: "blocked", title: "Keys that do not move" },
        element(
          "p",
          { class: "hint" },
          "Messages with the same partition key are handled in order. The first one of these keys holds up the others.",
        ),
        table(
          "Partition keys that do not move",
          [
            { name: "Partition key", cellClass: "key", cell: ({ partitionKey }) => partitionKey },
            { name: "Waiting behind", class: "number", cell: ({ waiting }) => number(waiting) },
            { name: "First message", cell: ({ head }) => messageLink(queue, head) },
            { name: "Topic", cell: ({ topic }) => topic },
            {
              name: "Why",
              class: "wide",
              cell: ({ reason, error }) => [
                reason === "dead" && stateBadge("dead"),
                element("span", {}, ` ${reasons[reason]}. `),
                error !== null && element("span", { class: "error-text" }, error),
              ],
            },
            { name: "Since", cell: ({ since }) => when(since) },
            { name: "Next attempt", cell: ({ nextAttemptAt }) => when(nextAttemptAt) },
          ],
          blocked,
          "No partition key is held up.",
        ),
      ),
    ];
  },
};
