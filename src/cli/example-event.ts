import { checkScheme } from "../webhooks/schemes/check-scheme.js";
import type { Alternatives } from "../webhooks/schemes/field-checks.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import type { TemplatePart } from "../webhooks/schemes/template.js";

/** A request of a provider, before it is signed. */
export interface ExampleEvent {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The scheme reads the topic from a header of its own, which `sign --topic` sets. */
  readonly topicInHeader: boolean;
}

/** Makes an event from which the scheme reads this id and topic, where it reads them from a header or the body. */
export function exampleEvent(scheme: WebhookScheme, id: string, topic: string): ExampleEvent {
  const checked = checkScheme(scheme, []);
  const ofTopic = fieldFor(checked.topic, topic);
  const ofId = fieldFor(checked.messageId, id);
  const fields = [ofId, ofTopic].filter((field) => field !== undefined);
  const isForm = ofTopic?.in === "form";
  const inBody = fields.filter((field) => field.in === (isForm ? "form" : "json"));
  return {
    body: isForm
      ? new URLSearchParams(Object.fromEntries(inBody.map(({ name, value }) => [name, value]))).toString()
      : JSON.stringify(withFields(inBody.length > 0 ? inBody : [{ name: "id", value: id }])),
    headers: isForm ? { "content-type": "application/x-www-form-urlencoded" } : {},
    topicInHeader: ofTopic?.in === "header",
  };
}

interface Field {
  readonly in: "header" | "json" | "form";
  readonly name: string;
  readonly value: string;
}

/** The field that makes one of the templates come out as `text`. */
function fieldFor(templates: Alternatives, text: string): Field | undefined {
  for (const [index, parts] of templates.entries()) {
    const field = fieldOf(parts, text);
    // `sign` sets a header only where it is the whole of the first template.
    if (field !== undefined && (field.in !== "header" || (index === 0 && parts.length === 1))) return field;
  }
  return undefined;
}

function fieldOf(parts: readonly TemplatePart[], text: string): Field | undefined {
  const at = parts.findIndex(({ placeholder }) => placeholder !== undefined);
  const part = parts[at];
  if (part?.placeholder !== "header" && part?.placeholder !== "json" && part?.placeholder !== "form")
    return undefined;
  const [before, after] = [parts.slice(0, at), parts.slice(at + 1)];
  if (after.some(({ placeholder }) => placeholder !== undefined)) return undefined;
  const [start, end] = [before, after].map((literals) => literals.map((literal) => literal.text).join(""));
  const value = text.slice(start!.length, text.length - end!.length);
  return value !== "" && start + value + end === text
    ? { in: part.placeholder, name: part.text, value }
    : undefined;
}

/** `{ "event.type": "x" }` as `{ event: { type: "x" } }`. */
function withFields(fields: readonly Pick<Field, "name" | "value">[]): object {
  const body: Record<string, unknown> = {};
  for (const { name, value } of fields) {
    const path = name.split(".");
    let inner = body;
    for (const step of path.slice(0, -1)) {
      inner[step] ??= {};
      inner = inner[step] as Record<string, unknown>;
    }
    inner[path.at(-1)!] = value;
  }
  return body;
}
