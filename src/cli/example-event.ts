import { checkScheme } from "../webhooks/schemes/check-scheme.js";
import type { Alternatives } from "../webhooks/schemes/field-checks.js";
import type { CheckedScheme } from "../webhooks/schemes/read-scheme.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import type { TemplatePart } from "../webhooks/schemes/template.js";
import { setAt } from "../webhooks/signing/draft.js";

/** A request of a provider, before it is signed. */
export interface ExampleEvent {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A value of the event, where a template reads it. */
interface Field {
  readonly in: "header" | "json" | "item" | "form";
  readonly name: string;
  readonly value: string;
}

const formType = "application/x-www-form-urlencoded";

/** Makes an event from which the scheme reads this id and topic, and that has all that the provider signs. */
export function exampleEvent(scheme: WebhookScheme, id: string, topic: string): ExampleEvent {
  const checked = checkScheme(scheme, []);
  const ofTopic = fieldsOf(checked.topic, topic);
  const isForm = hasForm(checked, ofTopic);
  // a form has no JSON, unless one of its fields has
  const ofId = fieldsOf(
    isForm && !checked.split?.field ? withoutJson(checked.messageId) : checked.messageId,
    id,
  );
  const known = ofId.length > 0 ? ofId : [ownField(checked, isForm, id)];
  const fields = [...signedFields(checked), ...known, ...ofTopic];
  const ofKind = (kind: Field["in"]) => fields.filter((field) => field.in === kind);
  const hasBody = fields.some((field) => field.in !== "header");
  const inBody = hasBody ? fields : [{ in: isForm ? "form" : "json", name: "id", value: id } as const];
  return {
    body: isForm ? formOf(inBody, checked) : JSON.stringify(jsonOf(inBody, checked)),
    headers: {
      ...(isForm ? { "content-type": formType } : {}),
      ...Object.fromEntries(ofKind("header").map(({ name, value }) => [name, value])),
    },
  };
}

const hasForm = ({ scheme, split }: CheckedScheme, fields: readonly Field[]): boolean =>
  fields.some((field) => field.in === "form") ||
  split?.field !== undefined ||
  scheme.contentTypes?.[0] === formType;

/**
 * Where the scheme reads no id, the event is known by its content: a field of our own makes it differ from the last
 * example, and two with the same id alike.
 */
function ownField({ split }: CheckedScheme, isForm: boolean, value: string): Field {
  const isWhole = split === undefined || (isForm && split.field === undefined);
  // an item's `id` may be that of an account, as Meta's is
  return isWhole
    ? { in: isForm ? "form" : "json", name: "id", value }
    : { in: "item", name: "example_id", value };
}

/** Whether `signWebhook` can give a body of the user's own this id: in a header. */
export const hasIdInHeader = (scheme: WebhookScheme): boolean =>
  checkScheme(scheme, []).messageId.some(
    ([part, ...more]) => part?.placeholder === "header" && more.length === 0,
  );

const withoutJson = (templates: Alternatives): Alternatives =>
  templates.filter((parts) =>
    parts.every(({ placeholder }) => placeholder !== "json" && placeholder !== "item"),
  );

/** What is signed besides the body as a whole. Of the alternatives the last is the one that needs the least. */
function signedFields({ scheme: { verify }, proof }: CheckedScheme): readonly Field[] {
  return verify.kind === "signature" ? (proof.at(-1) ?? []).flatMap((part) => fieldFor(part, "example")) : [];
}

/** The fields that make one of the templates come out as `text`, or else those that the first one needs. */
function fieldsOf(templates: Alternatives, text: string): readonly Field[] {
  const exact = templates.flatMap((parts) => {
    const field = exactField(parts, text);
    return field === undefined ? [] : [{ field, literals: parts.length - 1 }];
  });
  // `message.{form:MessageStatus}` says more about `message.sent` than `{item:type}` does
  const [best] = exact.sort((one, other) => other.literals - one.literals);
  if (best !== undefined) return [best.field];
  const several = templates.find((parts) => parts.filter(({ placeholder }) => placeholder).length > 1);
  return (several ?? []).flatMap((part) => fieldFor(part, text));
}

function fieldFor({ placeholder, text: name }: TemplatePart, value: string): readonly Field[] {
  if (placeholder === "header") return [{ in: "header", name: name.split("|")[0]!, value }];
  return placeholder === "json" || placeholder === "item" || placeholder === "form"
    ? [{ in: placeholder, name, value }]
    : [];
}

function exactField(parts: readonly TemplatePart[], text: string): Field | undefined {
  const at = parts.findIndex(({ placeholder }) => placeholder !== undefined);
  const [before, after] = [parts.slice(0, at), parts.slice(at + 1)];
  if (at < 0 || after.some(({ placeholder }) => placeholder !== undefined)) return undefined;
  const [start, end] = [before, after].map((literals) => literals.map((literal) => literal.text).join(""));
  const value = text.slice(start!.length, text.length - end!.length);
  return value !== "" && start + value + end === text ? fieldFor(parts[at]!, value)[0] : undefined;
}

function jsonOf(fields: readonly Field[], { split }: CheckedScheme): object {
  const item = objectOf(fields.filter((field) => field.in === "item"));
  const body = objectOf(fields.filter((field) => field.in === "json"));
  if (split === undefined) return body;
  const [list, ...outer] = split.path.join(".").split(".*.").reverse();
  if (!list) return [{ ...body, ...item }];
  let inner: object = item;
  for (const path of [list, ...outer]) {
    const around = {};
    setAt(around, path, [inner]);
    inner = around;
  }
  return { ...body, ...inner };
}

/** `event.type` as `{ event: { type: … } }`. */
function objectOf(fields: readonly Field[]): object {
  const made = {};
  for (const { name, value } of fields) setAt(made, name, value);
  return made;
}

function formOf(fields: readonly Field[], { split }: CheckedScheme): string {
  const form = new URLSearchParams();
  for (const { name, value } of fields.filter((field) => field.in === "form")) form.set(name, value);
  if (split?.field !== undefined)
    form.set(split.field, JSON.stringify([objectOf(fields.filter((field) => field.in === "item"))]));
  return form.toString();
}
