import { api, type Filter } from "../api.js";
import { element } from "../dom.js";
import { duration, number } from "../format.js";
import {
  choice,
  errorColumn,
  field,
  form,
  messageLink,
  nextPage,
  queueTabs,
  stateBadge,
  stateLabel,
  table,
  when,
} from "../parts.js";
import { linkTo, type Queue, type Route } from "../routes.js";
import type { View } from "../shell.js";
import { inboxPhases, keyOf, type Phase, phases } from "../wire.js";

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
            { name: "Type", cell: ({ type }) => type },
            { name: "State", cell: (message) => stateBadge(message.phase) },
            { name: "Attempts used", class: "number", cell: ({ attempt }) => number(attempt) },
            errorColumn(""),
            {
              name: queue === "inbox" ? "Received" : "Enqueued",
              cell: ({ firstSeenAt, createdAt }) => when(firstSeenAt ?? createdAt ?? null),
            },
          ],
          page.messages,
          "No messages match.",
        ),
        nextPage(route, page.cursor),
      ),
    ];
  },
};

const minute = 60_000;
const ages = [10 * minute, 60 * minute, 6 * 60 * minute, 24 * 60 * minute, 7 * 24 * 60 * minute];
const ageOptions = ages.map((ms) => [String(ms), duration(ms)] as const);

/** The part of the address that filters messages. */
export const filterOf = ({ query }: Route): Filter => {
  const { topic, source, error, errorGroup, olderThanMs, newerThanMs } = query;
  const given = Object.entries({ topic, source, error, errorGroup, olderThanMs, newerThanMs });
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
};

const phasesIn = (queue: Queue): readonly Phase[] =>
  queue === "inbox" ? [...phases, ...inboxPhases] : phases;

/** Puts its fields into the address, which shows the view again. */
export function filterForm(route: Route, { withState = false } = {}): HTMLElement {
  const { view, queue, query } = route;
  const text = (name: string) =>
    element("input", { id: name, name, value: query[name] ?? "", maxlength: 400 });
  const any = ["", "any"] as const;
  const submit = () => {
    const given = [...new FormData(made)].map(([name, value]) => [name, String(value).trim()]);
    const { errorGroup } = query;
    const fields = Object.fromEntries(given.filter(([, value]) => value !== ""));
    location.hash = linkTo(view, queue, { errorGroup, ...fields });
  };
  const made = form(
    { class: "filters", "aria-label": "Filter" },
    { label: "Filter", submit, beside: element("a", { href: linkTo(view, queue) }, "Clear") },
    withState &&
      field(
        "State",
        choice("state", [any, ...phasesIn(queue).map((one) => [one, stateLabel(one)] as const)], query.state),
      ),
    field("Topic", text("topic")),
    queue === "inbox" && field("Source", text("source")),
    field("Error contains", text("error")),
    field("Older than", choice("olderThanMs", [any, ...ageOptions], query.olderThanMs)),
    field("Newer than", choice("newerThanMs", [any, ...ageOptions], query.newerThanMs)),
  );
  return made;
}
