import { announce, announceFailure } from "../announce.js";
import { api } from "../api.js";
import { type Child, element, replaceContent } from "../dom.js";
import { number } from "../format.js";
import { keyText } from "../key-text.js";
import { button } from "../parts/button.js";
import { changeDialog } from "../parts/change-dialogs.js";
import { editForm } from "../parts/edit-form.js";
import { stateBadge, stateLabel } from "../parts/state-badge.js";
import { table } from "../parts/table.js";
import { at } from "../parts/time.js";
import { waySteps } from "../parts/way-steps.js";
import { repeat } from "../repeat.js";
import { linkTo, queueName } from "../routes.js";
import { doneWord } from "../running-operations.js";
import type { View, ViewContext } from "../view.js";
import {
  actionNames,
  type BulkAction,
  bulkActions,
  isEnded,
  type Key,
  keyOf,
  type ListedMessage,
  type MessageWithAttempts,
  type WholeMessage,
} from "../wire.js";

const refreshMs = 1_000;

export const message: View = {
  title: "Message",
  async show(context) {
    const { route, signal } = context;
    const key = keyOf(route.query);
    const facts = element("div", { class: "stack" });
    const content = contentSection(context, key);
    const update = async () => {
      const found = await api.message(route.queue, key, { signal });
      const way = await api.way(found.correlationId ?? found.messageId, { signal });
      replaceContent(
        facts,
        summarySection(context, found),
        attemptsSection(found),
        element(
          "section",
          { class: "card", "aria-labelledby": "way-title" },
          element("h2", { id: "way-title" }, "Its way"),
          way.length === 0 ? element("p", { class: "none" }, "Nothing is known.") : waySteps(way),
        ),
      );
      return isOver(found) ? false : undefined;
    };
    if ((await update()) === undefined)
      void repeat(signal, refreshMs, () =>
        update().catch((error) => {
          announceFailure(error);
          return undefined;
        }),
      );
    return [facts, content];
  },
};

const isOver = ({ phase }: ListedMessage) => phase === "done" || phase === "dead" || isEnded(phase);

function summarySection(context: ViewContext, shown: ListedMessage): HTMLElement {
  const isDead = shown.phase === "dead";
  return element(
    "section",
    { class: "card", "aria-labelledby": "summary-title" },
    element(
      "div",
      { class: "heading" },
      element("h2", { id: "summary-title", class: "key" }, keyText(keyOf(shown))),
      stateBadge(shown.phase),
    ),
    shown.lastError !== null && element("p", { class: "error-text notice" }, shown.lastError),
    isDead &&
      element(
        "div",
        { class: "actions" },
        bulkActions.map((action) => changeButton(context, keyOf(shown), action)),
      ),
    fields(context, shown),
  );
}

const changeButton = ({ route, reload }: ViewContext, key: Key, action: BulkAction): HTMLElement =>
  button(
    actionNames[action],
    async () => {
      if (action !== "replay" && !(await changeDialog(action, 1))) return;
      const { changed } = await api.change(route.queue, action, [key]);
      announce(changed.length === 1 ? `1 message ${doneWord(action)}.` : "The message is no longer dead.");
      if (action === "discard") location.hash = linkTo("dead", route.queue);
      else reload();
    },
    { id: action, kind: action === "replay" ? "primary" : undefined },
  );

function fields({ route: { queue } }: ViewContext, shown: ListedMessage): HTMLElement {
  const time = (iso: string | null | undefined) => (iso === null || iso === undefined ? null : at(iso));
  const rows: readonly (readonly [name: string, value: Child])[] = [
    ["Queue", queueName[queue]],
    ["Source", shown.source],
    ["Message id", shown.messageId],
    ["Topic", shown.topic],
    [
      "Correlation id",
      shown.correlationId !== null &&
        element("a", { href: linkTo("way", undefined, { id: shown.correlationId }) }, shown.correlationId),
    ],
    ["Partition key", shown.partitionKey],
    ["Natural key", shown.naturalKey],
    ["Attempts used", number(shown.attempt)],
    ["Crashes", shown.crashes > 0 && number(shown.crashes)],
    ["Received", time(shown.firstSeenAt)],
    ["Last received", shown.deliveries !== undefined && shown.deliveries > 1 && time(shown.lastSeenAt)],
    ["Deliveries", shown.deliveries !== undefined && number(shown.deliveries)],
    ["Enqueued", time(shown.createdAt)],
    ["Due", time(shown.dueAt)],
    ["Expires", time(shown.expiresAt)],
    ["Next attempt", time(shown.nextAttemptAt)],
    ["Leased until", time(shown.lockedUntil)],
    ["Leased by", shown.owner],
    ["Last attempt", time(shown.lastAttemptAt)],
    ["Died", time(shown.diedAt)],
    [
      "Same error",
      shown.errorGroup !== null &&
        element(
          "a",
          { href: linkTo("dead", queue, { errorGroup: shown.errorGroup }) },
          "dead letters like it",
        ),
    ],
    [endingLabel(shown), time(shown.processedAt)],
    ["Done by", shown.processedBy],
  ];
  return element(
    "dl",
    { class: "fields" },
    rows
      .filter(([, value]) => value !== null && value !== undefined && value !== false)
      .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

const endingLabel = ({ phase }: ListedMessage): string => (isEnded(phase) ? stateLabel(phase) : "Done");

const attemptsSection = ({ attempts, phase }: MessageWithAttempts): HTMLElement =>
  element(
    "section",
    { class: "card", "aria-labelledby": "attempts-title" },
    element("h2", { id: "attempts-title" }, "History of failed attempts"),
    table(
      "History of failed attempts",
      [
        { name: "Attempt", class: "number", cell: ({ attempt }) => number(attempt) },
        { name: "Ended", cell: ({ endedAt }) => at(endedAt) },
        { name: "Worker", cellClass: "key", cell: ({ worker }) => worker ?? "–" },
        { name: "Error", class: "wide", cellClass: "error-text", cell: ({ error }) => error ?? "no error" },
      ],
      attempts,
      isEnded(phase) ? "They are in the archive." : "No attempt has failed.",
    ),
  );

/** Payload and headers are read when somebody asks for them, and the server logs who did. */
function contentSection(context: ViewContext, key: Key): HTMLElement {
  const { queue } = context.route;
  const shown = element("div", { tabindex: -1 });
  const show = async () => {
    const message = await api.message(queue, key, { payload: true, signal: context.signal });
    if (isEnded(message.phase))
      replaceContent(shown, element("p", {}, "It is in the table of archived messages."));
    else
      replaceContent(
        shown,
        headersTable(message),
        element("h3", {}, "Payload"),
        element("pre", { tabindex: 0, "aria-label": "Payload" }, readable(message.payload ?? "")),
        message.phase === "dead" && editForm(queue, key, message),
      );
    shown.focus();
  };
  return element(
    "section",
    { class: "card", "aria-labelledby": "content-title" },
    element(
      "div",
      { class: "heading" },
      element("h2", { id: "content-title" }, "Content"),
      button("Show payload", show, { id: "show-payload" }),
    ),
    element("p", { class: "hint" }, "It may be personal data. Whoever opens it is logged."),
    shown,
  );
}

function headersTable({ headers }: WholeMessage): Child {
  const entries = Object.entries(headers ?? {});
  return [
    element("h3", {}, "Headers"),
    table(
      "Headers",
      [
        { name: "Name", cell: ([name]) => name },
        { name: "Value", class: "wide", cell: ([, value]) => value },
      ],
      entries,
      "None.",
    ),
  ];
}

/** JSON is indented. What is none is shown as it is. */
function readable(payload: string): string {
  try {
    return JSON.stringify(JSON.parse(payload), null, 2);
  } catch {
    return payload;
  }
}
