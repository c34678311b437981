import { type Attributes, announceFailure, type Child, element, reasonOf } from "./dom.js";
import { ago, moment } from "./format.js";
import { keyText } from "./key-text.js";
import { linkTo, type Queue, queueName, queues, type Route } from "./routes.js";
import type { Key } from "./wire.js";

interface CardTitle {
  readonly id: string;
  readonly title: Child;
  /** Beside the title. */
  readonly beside?: Child;
}

/** A framed section with a title. */
export const card = ({ id, title, beside }: CardTitle, ...children: readonly Child[]): HTMLElement =>
  element(
    "section",
    { class: "card", "aria-labelledby": `${id}-title` },
    element("div", { class: "heading" }, element("h2", { id: `${id}-title` }, title), beside),
    children,
  );

interface FormOptions {
  /** The label of its button. */
  readonly label: string;
  /** Done instead of sending the form. What goes wrong is shown in it. */
  readonly submit: () => Promise<void> | void;
  /** Beside the button. */
  readonly beside?: Child;
  /** Shown from the start. */
  readonly problem?: string;
}

export function form(
  attributes: Attributes,
  { label, submit, beside, problem = "" }: FormOptions,
  ...fields: readonly Child[]
): HTMLFormElement {
  const alert = element("p", { class: "problem", role: "alert" }, problem);
  const run = async (event: Event) => {
    event.preventDefault();
    alert.textContent = "";
    try {
      await submit();
    } catch (error) {
      alert.textContent = reasonOf(error);
    }
  };
  return element(
    "form",
    { ...attributes, on: { submit: (event) => void run(event) } },
    fields,
    alert,
    element(
      "div",
      { class: "actions" },
      element("button", { type: "submit", class: "primary" }, label),
      beside,
    ),
  );
}

interface ButtonOptions extends Omit<Attributes, "on"> {
  readonly kind?: "primary" | "danger" | "quiet" | undefined;
}

/** Does its work once at a time, and says what went wrong. */
export function button(
  label: Child,
  work: () => Promise<void> | void,
  options: ButtonOptions = {},
): HTMLButtonElement {
  const { kind, ...attributes } = options;
  const made = element(
    "button",
    { type: "button", class: kind, ...attributes, on: { click: () => void run() } },
    label,
  );
  const run = async () => {
    if (made.getAttribute("aria-disabled") === "true") return;
    made.setAttribute("aria-disabled", "true"); // it keeps the focus, which a disabled one would lose
    try {
      await work();
    } catch (error) {
      announceFailure(error);
    } finally {
      made.removeAttribute("aria-disabled");
    }
  };
  return made;
}

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/** A control under its label. The control has an id. */
export const field = (label: string, control: Control, hint?: Child): HTMLElement => {
  if (hint !== undefined) control.setAttribute("aria-describedby", `${control.id}-hint`);
  return element(
    "div",
    { class: "field" },
    element("label", { for: control.id }, label),
    control,
    hint !== undefined && element("p", { id: `${control.id}-hint`, class: "hint" }, hint),
  );
};

export const choice = (
  id: string,
  options: readonly (readonly [value: string, label: string])[],
  selected = "",
): HTMLSelectElement =>
  element(
    "select",
    { id, name: id },
    options.map(([value, label]) => element("option", { value, selected: value === selected }, label)),
  );

interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => Child;
  /** Of the column, with its head. */
  readonly class?: string;
  /** Of its cells only. */
  readonly cellClass?: string;
}

/** A table that becomes a list of cards on a narrow screen. The roles keep it a table for screen readers there. */
export function table<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  none: string,
): HTMLElement {
  if (rows.length === 0) return element("p", { class: "none" }, none);
  return element(
    "table",
    { role: "table" },
    element("caption", { class: "visually-hidden" }, caption),
    element(
      "thead",
      { role: "rowgroup" },
      element(
        "tr",
        { role: "row" },
        columns.map(({ name, class: kind }) =>
          element("th", { role: "columnheader", scope: "col", class: kind }, name),
        ),
      ),
    ),
    element(
      "tbody",
      { role: "rowgroup" },
      rows.map((row) =>
        element(
          "tr",
          { role: "row" },
          columns.map(({ name, cell, class: kind = "", cellClass = "" }) =>
            element(
              "td",
              { role: "cell", "data-label": name, class: `${kind} ${cellClass}` },
              element("div", {}, cell(row)),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Of a message's last error. */
export const errorColumn = (none: string): Column<{ readonly lastError: string | null }> => ({
  name: "Error",
  class: "wide",
  cellClass: "error-text",
  cell: ({ lastError }) => lastError ?? none,
});

/** The sign says the same as the colour. */
const looks: Readonly<Record<string, readonly [kind: string, sign: string, label: string]>> = {
  seen: ["waiting", "○", "Seen"],
  waiting: ["waiting", "○", "Waiting"],
  retrying: ["waiting", "↻", "Retrying"],
  running: ["running", "◐", "Running"],
  paused: ["held", "‖", "Paused"],
  done: ["done", "✓", "Done"],
  dead: ["dead", "✕", "Dead"],
  archived: ["held", "▤", "Archived"],
  replaced: ["held", "⇄", "Replaced"],
  limited: ["held", "⇣", "Limited"],
  active: ["done", "✓", "Active"],
  quarantined: ["dead", "✕", "Quarantined"],
  unreachable: ["dead", "✕", "Unreachable"],
};

export function stateBadge(state: string): HTMLElement {
  const [kind, sign, label] = looks[state] ?? ["waiting", "○", state];
  return element(
    "span",
    { class: `badge ${kind}` },
    element("span", { "aria-hidden": "true" }, sign),
    ` ${label}`,
  );
}

export const stateLabel = (state: string): string => looks[state]?.[2] ?? state;

export const messageLink = (queue: Queue, key: Key): HTMLElement =>
  element("a", { class: "key", href: linkTo("message", queue, { ...key }) }, keyText(key));

/** A link to the page after the cursor, if there is one. */
export const nextPage = ({ view, queue, query }: Route, cursor: string | number | null): Child =>
  cursor !== null &&
  element(
    "p",
    { class: "pages" },
    element("a", { href: linkTo(view, queue, { ...query, after: cursor }) }, "Next page"),
  );

/** Links to the same view of the other queue. */
export const queueTabs = ({ view, queue }: Route): HTMLElement =>
  element(
    "nav",
    { class: "tabs", "aria-label": "Queue" },
    queues.map((one) =>
      element("a", { href: linkTo(view, one), "aria-current": one === queue && "page" }, queueName[one]),
    ),
  );

/** `5 min ago`, with the moment as its tooltip and for machines. */
export const when = (iso: string | null): Node | string =>
  iso === null ? "–" : element("time", { datetime: iso, title: moment(iso) }, ago(iso));

/** The moment itself. */
export const at = (iso: string): Node => element("time", { datetime: iso, title: ago(iso) }, moment(iso));
