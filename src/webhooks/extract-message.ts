import { createHash } from "node:crypto";
import { uuidV7 } from "../base/uuid.js";
import type { BatchMessage } from "../inbox/inbox.js";
import { maxNameLength } from "../queue/arguments.js";
import { payloadEncodingHeader } from "../queue/attributes.js";
import { type Delivery, maxEvents, splitDelivery } from "./schemes/delivery.js";
import { coveredByProof } from "./schemes/signed-content.js";
import { type Alternatives, fill, fillFirst, type OwnValues, timeWindow } from "./schemes/template.js";
import type { ResolvedSource } from "./sources.js";

export interface WebhookMessage extends BatchMessage {
  readonly tenant: string | null;
  readonly hash: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The header of a stored webhook that names its tenant. */
export const tenantHeader = "oncebox-tenant";

/** The header of a stored webhook that lists the signed fields, as JSON, where not all are signed: `["amount.value"]`. */
export const signedFieldsHeader = "oncebox-signed-fields";

/** Returns the body of a stored message, byte for byte as it was sent. */
export function webhookBody(message: {
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | null;
}): Uint8Array {
  const isBase64 = message.headers?.[payloadEncodingHeader] === "base64";
  return Buffer.from(message.payload, isBase64 ? "base64" : "utf8");
}

/** The events of a delivery, and one more than are allowed where there are too many. */
export const eventsOf = (delivery: Delivery, { split }: Pick<ResolvedSource, "split">): readonly Delivery[] =>
  splitDelivery(delivery, split, maxEvents);

/** Returns the messages of a verified delivery, or why it has none: it has neither an id nor a body to derive one from. */
export function extractMessages(
  delivery: Delivery,
  source: ResolvedSource,
  now: Date,
  events = eventsOf(delivery, source),
): readonly WebhookMessage[] | "no id" | "too many events" {
  if (events.length > maxEvents) return "too many events";
  const headers = keptHeaders(delivery, source);
  const messages = events.flatMap((event) => {
    const message = extractMessage(event, source, { headers, now });
    if (message === undefined) return [];
    return event === delivery || event.item()?.isObject === true
      ? message
      : { ...message, partitionKey: null, dead: noEvent };
  });
  return messages.length < events.length ? "no id" : messages;
}

/** Nothing but an object is an event. It is kept, because nothing is dropped, and not handled. */
const noEvent = "The item of the batch is no JSON object.";

interface Received {
  readonly now: Date;
  /** Of the delivery: all its events have the same. */
  readonly headers: Readonly<Record<string, string>>;
}

function extractMessage(
  event: Delivery,
  source: ResolvedSource,
  { headers, now }: Received,
): WebhookMessage | undefined {
  const content = stableContent(event, source);
  const hash = createHash("sha256").update(content).digest();
  const messageId = messageIdOf(event, source, { content, hash, now });
  if (messageId === undefined) return undefined;
  const partitionKey = partitionKeyOf(event, source);
  const tenant = nameOf(source.tenant, event);
  const text = event.text();
  return {
    source: source.name,
    messageId,
    ...topicOf(event, source),
    ...(partitionKey !== undefined && { partitionKey }),
    tenant: tenant ?? null,
    payload: text ?? Buffer.from(event.body).toString("base64"),
    hash: `sha256:${hash.toString("hex")}`,
    headers: {
      ...headers,
      ...(text === undefined && { [payloadEncodingHeader]: "base64" }),
      ...(tenant !== undefined && { [tenantHeader]: tenant }),
      ...(source.isSignedInPart && { [signedFieldsHeader]: JSON.stringify(signedFields(event, source)) }),
    },
  };
}

/** The fields that the signature covers, by the first of the scheme's templates that the event can fill, as it was verified. */
function signedFields(event: Delivery, { proof }: ResolvedSource): readonly string[] {
  const own: OwnValues = { secret: () => "-", timestamp: () => "-", url: () => "-", crc32: () => "-" };
  const used = proof.find((parts) => fill(parts, event, own) !== undefined) ?? [];
  return used.flatMap(({ placeholder = "", text }) =>
    ["json", "item", "form"].includes(placeholder) ? text : [],
  );
}

/**
 * A topic belongs to its source: whoever can send as one source never names the handler of another. The type is what the provider
 * says. An event whose type is missing or cannot be stored has the source's name as both.
 */
function topicOf(
  event: Delivery,
  { name, topic, sharedTopics }: ResolvedSource,
): Pick<WebhookMessage, "topic" | "type"> {
  const type = fillFirst(topic, event);
  if (type === undefined || !isName(type)) return { topic: name };
  const full = sharedTopics ? type : `${name}.${type}`;
  return isName(full) ? { topic: full, type } : { topic: name };
}

/** Starts with the source, and with the tenant where each tenant signs for itself: nobody delays the messages of another. */
function partitionKeyOf(event: Delivery, source: ResolvedSource): string | undefined {
  const own = fillFirst(source.partitionKey, event);
  if (own === undefined) return undefined;
  const key = `${source.name}/${ofTenant(own, event, source)}`;
  return isName(key) ? key : `sha256:${namedHash(source.name, exactBytes(key))}`;
}

interface Content {
  /** Without the fields that differ between deliveries. */
  readonly content: Uint8Array;
  readonly hash: Buffer;
  readonly now: Date;
}

/**
 * The same for the same event that is sent again, unless the scheme says `{received}`. An id that cannot be stored is
 * replaced by its hash, a missing one by the hash of the content.
 */
function messageIdOf(
  event: Delivery,
  source: ResolvedSource,
  { content, hash, now }: Content,
): string | undefined {
  const own: OwnValues = {
    received: () => uuidV7(),
    window: (name) => timeWindow(name, now),
    hash: () => hash.toString("hex"),
  };
  for (const template of source.messageId) {
    const found = fill(template, event, own);
    if (found === undefined) continue;
    return storable(coveredByProof(source, template) ? found : withContent(found, hash), event, source);
  }
  if (event.body.length === 0) return undefined; // all such deliveries would have the same id
  return storable(`body-sha256:${namedHash(source.name, content)}`, event, source);
}

function storable(own: string, event: Delivery, source: ResolvedSource): string {
  const id = ofTenant(own, event, source);
  return isName(id) ? id : `id-sha256:${namedHash(source.name, exactBytes(id))}`;
}

/** A tenant signs what it likes. With its name as a part, an id or a partition key is never that of another tenant's message. */
function ofTenant(own: string, event: Delivery, { hasTenantSecrets, tenant }: ResolvedSource): string {
  if (!hasTenantSecrets) return own;
  return `${encodeURIComponent((fillFirst(tenant, event) ?? "").toWellFormed())}/${own}`;
}

/**
 * Whoever has a copy of a signed delivery can send it with any id that is not signed. With the content as a part of the id
 * that cannot replace the content of another message.
 */
const withContent = (id: string, hash: Buffer): string => `${id}~${hash.toString("hex").slice(0, 16)}`;

/** As JSON, which keeps lone surrogates different. In UTF-8 they all become U+FFFD. */
const exactBytes = (text: string): Uint8Array => Buffer.from(JSON.stringify(text));

/** A name contains no NUL, so two different pairs of name and content are never hashed as the same bytes. */
const namedHash = (name: string, content: Uint8Array): string =>
  createHash("sha256").update(name).update("\0").update(content).digest("hex");

/** Returns undefined for a name that cannot be stored. */
function nameOf(templates: Alternatives, delivery: Delivery): string | undefined {
  const text = fillFirst(templates, delivery);
  return text !== undefined && isName(text) ? text : undefined;
}

/** The names that `receive` accepts as an id, a topic or a source. */
const isName = (text: string): boolean =>
  text !== "" &&
  text.length <= maxNameLength &&
  !text.includes("\0") &&
  text.isWellFormed() &&
  !text.endsWith(" ");

const alwaysKept = ["content-type", "content-encoding", "traceparent", "tracestate"];
const maxKeptLength = 1_024;

function keptHeaders(delivery: Delivery, source: ResolvedSource): Readonly<Record<string, string>> {
  const names = [...alwaysKept, ...(source.scheme.keepHeaders ?? []).map((name) => name.toLowerCase())];
  const kept = names.flatMap((name) => {
    const value = delivery.headers.get(name);
    return value === null || value.length > maxKeptLength ? [] : [[name, value] as const];
  });
  return Object.fromEntries(kept);
}

/**
 * Returns the content without the fields that differ between two deliveries of one event. It is hashed and not read. Cut
 * out of the bytes, so that two numbers that JSON would round to one stay different.
 */
function stableContent(delivery: Delivery, { scheme }: ResolvedSource): Uint8Array {
  const { volatileFields = [] } = scheme;
  const item = volatileFields.length === 0 ? undefined : delivery.item();
  const isInForm = item !== undefined && item === delivery.json() && delivery.form() !== undefined;
  return item === undefined || isInForm ? delivery.body : item.stable();
}
