import { type Child, element } from "../dom.js";
import { count, duration } from "../format.js";
import { queueName } from "../routes.js";
import { isEnded, type WayStep } from "../wire.js";
import { messageLink } from "./message-link.js";
import { stateBadge } from "./state-badge.js";
import { at } from "./time.js";

interface Moment {
  readonly iso: string;
  readonly text: string;
}

/** What happened to a message, in its order. */
function momentsOf({ queue, phase, enqueuedAt, firstAttemptAt, doneAt, diedAt }: WayStep): readonly Moment[] {
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

const endingOf = (phase: WayStep["phase"], received: boolean): string =>
  isEnded(phase) ? phase : received ? "handled" : "published";

/** The way of one event: each message of it, and its moments. */
export const waySteps = (steps: readonly WayStep[]): HTMLElement =>
  element(
    "ol",
    { class: "way" },
    steps.map((step) =>
      element(
        "li",
        {},
        element(
          "p",
          { class: "way-head" },
          element("span", { class: "way-queue" }, queueName[step.queue]),
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
