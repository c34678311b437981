import { api } from "../api.js";
import { changeDialog } from "../dialogs.js";
import { announce, type Child, element, repeat, replaceContent } from "../dom.js";
import { number } from "../format.js";
import { keyText } from "../key-text.js";
import { doneWord } from "../operations.js";
import { at, button, card, field, form, stateBadge, stateLabel, table } from "../parts.js";
import { linkTo, type Queue, queueName } from "../routes.js";
import type { View, ViewContext } from "../shell.js";
import {
  actionNames,
  type BulkAction,
  bulkActions,
  isResolved,
  type Key,
  keyOf,
  type ListedMessage,
  type MessageWithAttempts,
  type WholeMessage,
} from "../wire.js";
import { traceSteps } from "./trace.js";

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
      const trace = await api.trace(found.correlationId ?? found.messageId, { signal });
      replaceContent(
        facts,
        summarySection(context, found),
        attemptsSection(found),
        card({ id: "trace", title: "Trace" }, traceSteps(trace)),
      );
      return !isOver(found);
    };
    if (await update()) void repeat(signal, refreshMs, update);
    return [facts, content];
  },
};

const isOver = ({ phase }: ListedMessage) => phase === "done" || phase === "dead" || isResolved(phase);

function summarySection(context: ViewContext, shown: ListedMessage): HTMLElement {
  const isDead = shown.phase === "dead";
  const title = element("span", { class: "key" }, keyText(keyOf(shown)));
  return card(
    { id: "summary", title, beside: stateBadge(shown.phase) },
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
    ["Type", shown.type],
    [
      "Correlation id",
      shown.correlationId !== null &&
        element("a", { href: linkTo("trace", undefined, { id: shown.correlationId }) }, shown.correlationId),
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
    [isResolved(shown.phase) ? stateLabel(shown.phase) : "Done", time(shown.processedAt)],
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

const attemptsSection = ({ attempts, phase }: MessageWithAttempts): HTMLElement =>
  card(
    { id: "attempts", title: "History of failed attempts" },
    table(
      "History of failed attempts",
      [
        { name: "Attempt", class: "number", cell: ({ attempt }) => number(attempt) },
        { name: "Ended", cell: ({ endedAt }) => at(endedAt) },
        { name: "Worker", cellClass: "key", cell: ({ worker }) => worker ?? "–" },
        { name: "Error", class: "wide", cellClass: "error-text", cell: ({ error }) => error ?? "no error" },
      ],
      attempts,
      isResolved(phase) ? "They are in the archive." : "No attempt has failed.",
    ),
  );

/** Payload and headers are read when somebody asks for them, and the server logs who did. */
function contentSection(context: ViewContext, key: Key): HTMLElement {
  const { queue } = context.route;
  const shown = element("div", { tabindex: -1 });
  const show = async () => {
    const message = await api.message(queue, key, { payload: true, signal: context.signal });
    if (isResolved(message.phase))
      replaceContent(shown, element("p", {}, "It is in the table of archived messages."));
    else
      replaceContent(
        shown,
        element("h3", {}, "Headers"),
        headersTable(message),
        element("h3", {}, "Payload"),
        element("pre", { tabindex: 0, "aria-label": "Payload" }, readable(message.payload ?? "")),
        message.phase === "dead" && editForm(queue, key, message),
      );
    shown.focus();
  };
  return card(
    { id: "content", title: "Content", beside: button("Show payload", show, { id: "show-payload" }) },
    element("p", { class: "hint" }, "It may be personal data. Whoever opens it is logged."),
    shown,
  );
}

const headersTable = ({ headers }: WholeMessage): HTMLElement =>
  table(
    "Headers",
    [
      { name: "Name", cell: ([name]) => name },
      { name: "Value", class: "wide", cell: ([, value]) => value },
    ],
    Object.entries(headers ?? {}),
    "None.",
  );

/** JSON is indented. What is none is shown as it is. */
function readable(payload: string): string {
  try {
    return JSON.stringify(JSON.parse(payload), null, 2);
  } catch {
    return payload;
  }
}

/** Only what was changed is sent: the rest stays as it was, to the byte. */
function editForm(queue: Queue, key: Key, message: WholeMessage): HTMLElement {
  const before = {
    topic: message.topic,
    payload: message.payload ?? "",
    headers: message.headers ? JSON.stringify(message.headers, null, 2) : "",
  };
  const topic = element("input", { id: "edit-topic", value: before.topic, required: true });
  const payload = element("textarea", { id: "edit-payload", rows: 10, spellcheck: "false" });
  payload.value = before.payload;
  const headers = element("textarea", { id: "edit-headers", rows: 4, spellcheck: "false" });
  headers.value = before.headers;

  const submit = async () => {
    const changes = {
      ...(topic.value === before.topic ? {} : { topic: topic.value }),
      ...(payload.value === before.payload ? {} : { payload: payload.value }),
      ...(headers.value === before.headers ? {} : { headers: parsedHeaders(headers.value) }),
    };
    const { key: made } = await api.edit(queue, key, changes);
    announce("The edited message is enqueued. This is the new message.");
    location.hash = linkTo("message", queue, { ...made });
  };
  return element(
    "details",
    { class: "edit", id: "edit" },
    element("summary", {}, "Edit and replay"),
    form(
      { "aria-label": "Edit and replay" },
      { label: "Enqueue the edited message", submit },
      element(
        "p",
        { class: "hint" },
        "A new message with this content is enqueued, and the dead one is archived.",
      ),
      field("Topic", topic),
      field("Payload", payload),
      field("Headers", headers, "As a JSON object of texts. Empty: none."),
    ),
  );
}

function parsedHeaders(text: string): Readonly<Record<string, string>> | null {
  if (text.trim() === "") return null;
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    if (isObject && Object.values(value).every((one) => typeof one === "string"))
      return value as Record<string, string>;
  } catch {
    // the same problem
  }
  throw new Error('The headers must be a JSON object of texts, such as {"name": "value"}.');
}
