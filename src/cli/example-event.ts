import type { AppDefinition } from "../app/definition.js";
import { openJobs } from "../app/jobs.js";
import type { Environment } from "../config/environment.js";
import { topicMatcher } from "../dispatch/handlers.js";
import { isPresetName, type PresetName } from "../webhooks/preset-names.js";
import { checkScheme } from "../webhooks/schemes/check-scheme.js";
import type { CheckedScheme } from "../webhooks/schemes/read-scheme.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import type { Alternatives, TemplatePart } from "../webhooks/schemes/template.js";
import { setAt } from "../webhooks/signing/draft.js";
import { devDatabase } from "./load-app.js";
import type { KnownSource } from "./sources.js";

/** A request of a provider, before it is signed. */
interface ExampleEvent {
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

/** Makes an event from which the scheme reads this id and type, and that has all that the provider signs. */
export function exampleEvent(scheme: WebhookScheme, id: string, type: string): ExampleEvent {
  const checked = checkScheme(scheme, []);
  const ofType = fieldsOf(checked.topic, type);
  const isForm = hasForm(checked, ofType);
  // a form has no JSON, unless one of its fields has
  const ofId = fieldsOf(
    isForm && !checked.split?.field ? withoutJson(checked.messageId) : checked.messageId,
    id,
  );
  const known = ofId.length > 0 ? ofId : [ownField(checked, isForm, id)];
  const fields = [...signedFields(checked), ...known, ...ofType];
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

/** What is signed besides the body as a whole. The last alternative needs the least. */
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

/**
 * The type of an example event: what the provider really sends, or, where the app does not handle that, the first type of
 * the source that it handles.
 */
export async function exampleType(
  source: KnownSource,
  given: AppDefinition,
  environment: Environment,
): Promise<string> {
  const real = providerType(source.own?.scheme ?? source.name);
  const { definition, topics } = withTopics(given);
  if (typeof definition.handlers === "function" && given.tenants === undefined) {
    // An app with only the handlers opens no connection. `oncebox dev` says what is wrong with them.
    const { handlers } = definition;
    const app = await openJobs({ database: devDatabase, handlers }, { environment }).catch(() => undefined);
    await app?.close();
  }
  const isHandled = topicMatcher(new Map(topics.map((topic) => [topic, true])))(prefixOf(source) + real);
  return isHandled ? real : (firstType(source, topics) ?? real);
}

/**
 * The keys of the app's handlers: topics and patterns. A function that makes the handlers is called once, when the app is
 * opened, so its topics are in the list after that. With tenants it is called later, and then no topic is known here.
 */
export function withTopics(given: AppDefinition): {
  readonly definition: AppDefinition;
  readonly topics: readonly string[];
} {
  const { handlers } = given;
  if (typeof handlers !== "function") return { definition: given, topics: Object.keys(handlers ?? {}) };
  const topics: string[] = [];
  const definition: AppDefinition = {
    ...given,
    handlers(parts) {
      const made = handlers(parts);
      topics.push(...Object.keys(made ?? {}));
      return made;
    },
  };
  return { definition, topics };
}

/** The type of the first topic that is the source's, and no pattern. */
export function firstType(source: KnownSource, topics: readonly string[]): string | undefined {
  const prefix = prefixOf(source);
  return topics.find((topic) => topic.startsWith(prefix) && !topic.endsWith("*"))?.slice(prefix.length);
}

/** What stands before the type in the source's topics. */
const prefixOf = ({ name, own }: KnownSource): string => (own?.sharedTopics ? "" : `${name}.`);

/** An event type that the provider really sends. */
export const providerType = (provider: unknown): string =>
  isPresetName(provider) ? providerTypes[provider] : "test";

/**
 * An event type of each provider, to show and to sign as an example. Most were found in its documentation or in its own library.
 * Those that have something else than the kind of an event have an example of that.
 */
const providerTypes: Readonly<Record<PresetName, string>> = {
  adyen: "AUTHORISATION",
  asana: "task.added",
  bitbucket: "repo:push",
  box: "FILE.UPLOADED",
  calendly: "invitee.created",
  clerk: "user.created",
  clickup: "taskCreated",
  discord: "APPLICATION_AUTHORIZED",
  docusign: "envelope-completed",
  dropbox: "dropbox", // a notification has no kind
  eventgrid: "Microsoft.Storage.BlobCreated",
  github: "push",
  gitlab: "push",
  googlepubsub: "projects/example/subscriptions/example", // the subscription
  googlepush: "exists", // the state of the resource
  hubspot: "contact.creation",
  intercom: "conversation.user.created",
  jira: "jira:issue_created",
  lemonsqueezy: "order_created",
  linear: "Issue.create",
  linkedin: "SHARE_MENTION",
  mailgun: "delivered",
  mandrill: "send",
  meta: "page",
  mollie: "payment-link.paid",
  mollieclassic: "mollieclassic", // as Dropbox
  msgraph: "created",
  msgraphdata: "created",
  notion: "page.created",
  okta: "user.session.start",
  paddle: "transaction.completed",
  paypal: "PAYMENT.CAPTURE.COMPLETED",
  plaid: "TRANSACTIONS.SYNC_UPDATES_AVAILABLE",
  razorpay: "payment.captured",
  resend: "email.delivered",
  sendgrid: "delivered",
  shopify: "orders/create",
  slack: "app_mention",
  sns: "Notification",
  square: "payment.created",
  standard: "user.created",
  stripe: "invoice.paid",
  svix: "user.created",
  trello: "createCard",
  twilio: "message.delivered",
  twitch: "channel.follow",
  typeform: "form_response",
  whatsapp: "messages",
  woocommerce: "order.created",
  workos: "dsync.user.created",
  x: "profile.update.bio",
  xero: "INVOICE.UPDATE",
  zendesk: "zen:event-type:ticket.created",
  zoom: "meeting.started",
};
