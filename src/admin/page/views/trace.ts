import { api } from "../api.js";
import { element } from "../dom.js";
import { count, duration } from "../format.js";
import { at, field, form, messageLink, stateBadge } from "../parts.js";
import { linkTo, queueName } from "../routes.js";
import type { View } from "../shell.js";
import { isResolved, type TraceStep } from "../wire.js";

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
  const submit = () => {
    location.hash = linkTo("trace", undefined, { id: input.value.trim() });
  };
  return form(
    { class: "filters", role: "search" },
    { label: "Find", submit },
    field("Message id or correlation id", input),
  );
}

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
        moments(step),
        step.lastError !== null && element("p", { class: "error-text" }, step.lastError),
      ),
    ),
  );

/** What happened to a message, in its order, and how long after what was before. */
function moments({ queue, phase, enqueuedAt, firstAttemptAt, doneAt, diedAt }: TraceStep): HTMLElement {
  const isReceived = queue === "inbox";
  const done = isResolved(phase) ? phase : isReceived ? "handled" : "published";
  const hasRetried = firstAttemptAt !== doneAt && firstAttemptAt !== diedAt;
  const all: readonly (readonly [text: string, iso: string | null])[] = [
    [isReceived ? "received" : "enqueued", enqueuedAt],
    ["first attempt failed", hasRetried ? firstAttemptAt : null],
    ["dead", diedAt],
    [done, doneAt],
  ];
  const known = all.flatMap(([text, iso]) => (iso === null ? [] : [{ text, iso }]));
  return element(
    "ul",
    { class: "moments" },
    known.map(({ iso, text }, index) => {
      const before = known[index - 1];
      const ms = before && Date.parse(iso) - Date.parse(before.iso);
      return element("li", {}, `${text} `, at(iso), ms !== undefined && ` (+${duration(ms)})`);
    }),
  );
}
