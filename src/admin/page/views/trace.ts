import { api } from "../api.js";
import { type Child, element } from "../dom.js";
import { count, duration } from "../format.js";
import { at, field, messageLink, stateBadge } from "../parts.js";
import { linkTo, queueName } from "../routes.js";
import type { View } from "../shell.js";
import { isEnded, type TraceStep } from "../wire.js";

export const trace: View = {
  title: "Trace of an event",
  async show({ route, signal }) {
    const id = route.query.id ?? "";
    return [searchForm(id), ...(id === "" ? [] : [await found(id, signal)])];
  },
};

async function found(id: string, signal: AbortSignal): Promise<HTMLElement> {
  const steps = await api.trace(id, { signal });
  if (steps.length === 0) return element("p", { class: "none" }, `No message has the id ${id}.`);
  return element("section", { class: "card", "aria-label": "Trace" }, traceSteps(steps));
}

function searchForm(id: string): HTMLElement {
  const input = element("input", { id: "event-id", name: "id", value: id, required: true, maxlength: 400 });
  return element(
    "form",
    {
      class: "filters",
      role: "search",
      on: {
        submit(event) {
          event.preventDefault();
          location.hash = linkTo("trace", undefined, { id: input.value.trim() });
        },
      },
    },
    field("Message id or correlation id", input),
    element("div", { class: "actions" }, element("button", { type: "submit", class: "primary" }, "Find")),
  );
}

interface Moment {
  readonly iso: string;
  readonly text: string;
}

/** What happened to a message, in its order. */
function momentsOf({
  queue,
  phase,
  enqueuedAt,
  firstAttemptAt,
  doneAt,
  diedAt,
}: TraceStep): readonly Moment[] {
  const received = queue === "inbox";
  const moments: (Moment | null)[] = [
    { iso: enqueuedAt, text: received ? "received" : "enqueued" },
    firstAttemptAt !== null && firstAttemptAt !== doneAt && firstAttemptAt !== diedAt
      ? { iso: firstAttemptAt, text: "first attempt failed" }
      : null,
    diedAt === null ? null : { iso: diedAt, text: "dead" },
    doneAt === null ? null : { iso: doneAt, text: endingOf(phase, received) },
  ];
  return moments.filter((one) => one !== null);
}

const endingOf = (phase: TraceStep["phase"], received: boolean): string =>
  isEnded(phase) ? phase : received ? "handled" : "published";

/** The messages of one event, each with its moments. */
export const traceSteps = (steps: readonly TraceStep[]): HTMLElement =>
  element(
    "ol",
    { class: "trace" },
    steps.map((step) =>
      element(
        "li",
        {},
        element(
          "p",
          { class: "trace-head" },
          element("span", { class: "trace-queue" }, queueName[step.queue]),
          element("strong", {}, step.topic),
          messageLink(step.queue, step.key),
          stateBadge(step.phase),
          step.attempt > 0 && element("span", { class: "hint" }, `${count(step.attempt, "attempt")} used`),
        ),
        momentLine(momentsOf(step)),
        step.lastError !== null && element("p", { class: "error-text" }, step.lastError),
      ),
    ),
  );

const momentLine = (moments: readonly Moment[]): HTMLElement =>
  element(
    "ul",
    { class: "moments" },
    moments.map(({ iso, text }, index): Child => {
      const before = moments[index - 1];
      const ms = before && Date.parse(iso) - Date.parse(before.iso);
      return element("li", {}, `${text} `, at(iso), ms !== undefined && ` (+${duration(ms)})`);
    }),
  );
