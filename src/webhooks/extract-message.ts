import { createHash } from "node:crypto";
import { defined } from "../base/defined.js";
import type { IncomingMessage } from "../inbox/inbox.js";
import { maxNameLength } from "../queue/arguments.js";
import type { Delivery } from "./schemes/delivery.js";
import type { Alternatives } from "./schemes/field-checks.js";
import { fillFirst } from "./schemes/template.js";
import type { ResolvedSource } from "./sources.js";

export interface WebhookMessage extends IncomingMessage {
  readonly tenant: string | null;
  readonly hash: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

/** Says that the payload is the body in base64, because the body is not UTF-8. */
export const payloadEncodingHeader = "oncebox-payload-encoding";
export const tenantHeader = "oncebox-tenant";

const alwaysKept = ["content-type", "content-encoding", "traceparent", "tracestate"];
const maxKeptLength = 1_024;

/** Returns the message of a verified delivery, or undefined when it has neither an id nor a body to derive one from. */
export function extractMessage(delivery: Delivery, source: ResolvedSource): WebhookMessage | undefined {
  const hash = contentHash(delivery, source.scheme.volatileFields ?? []);
  const messageId = messageIdOf(delivery, source, hash);
  if (messageId === undefined) return undefined;
  const topic = nameOf(source.topic, delivery);
  const tenant = nameOf(source.tenant, delivery);
  const text = delivery.text();
  return {
    source: source.name,
    messageId,
    topic: topic ?? source.name,
    tenant: tenant ?? null,
    payload: text ?? Buffer.from(delivery.body).toString("base64"),
    hash,
    headers: {
      ...keptHeaders(delivery, source),
      ...defined({
        [payloadEncodingHeader]: text === undefined ? "base64" : undefined,
        [tenantHeader]: tenant,
      }),
    },
  };
}

/** Returns the body of a stored message, byte for byte as it was sent. */
export function webhookBody(message: {
  readonly payload: string;
  readonly headers: Readonly<Record<string, string>> | null;
}): Uint8Array {
  const isBase64 = message.headers?.[payloadEncodingHeader] === "base64";
  return Buffer.from(message.payload, isBase64 ? "base64" : "utf8");
}

/**
 * Never random: the same delivery must get the same id when it is sent again. An id that cannot be stored is
 * replaced by its hash, a missing one by the hash of the body.
 */
function messageIdOf(delivery: Delivery, source: ResolvedSource, hash: Uint8Array): string | undefined {
  const found = fillFirst(source.messageId, delivery);
  const id = found === undefined || isSigned(source, found, delivery) ? found : withContent(found, hash);
  if (id !== undefined) return isName(id) ? id : `id-sha256:${namedHash(source.name, exactBytes(id))}`;
  if (delivery.body.length === 0) return undefined; // all such deliveries would have the same id
  return `body-sha256:${namedHash(source.name, delivery.body)}`;
}

/**
 * Whoever has a copy of a signed delivery can send it with any id that is not signed. With the content as a part of the id
 * that cannot replace the content of another message.
 */
const withContent = (id: string, hash: Uint8Array): string =>
  `${id}~${Buffer.from(hash).toString("hex").slice(0, 16)}`;

/** Whether the alternative that gave the id has only values that the signature covers. A token proves all or nothing. */
function isSigned({ scheme, proof, messageId }: ResolvedSource, id: string, delivery: Delivery): boolean {
  if (scheme.verify.kind === "token") return true;
  const used = messageId.find((parts) => fillFirst([parts], delivery) === id) ?? [];
  const covers = (placeholder: string, name?: string) =>
    proof.every((parts) =>
      parts.some((part) => part.placeholder === placeholder && (name === undefined || part.text === name)),
    );
  return used.every(({ placeholder, text }) => {
    if (placeholder === "header") return covers("header", text);
    if (placeholder === "query") return covers("query", text) || covers("url");
    return true;
  });
}

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

function contentHash(delivery: Delivery, volatile: readonly string[]): Uint8Array {
  const stable = volatile.length === 0 ? undefined : withoutFields(delivery.json(), volatile);
  return createHash("sha256")
    .update(stable ?? delivery.body)
    .digest();
}

function withoutFields(json: unknown, fields: readonly string[]): string | undefined {
  if (typeof json !== "object" || json === null || Array.isArray(json)) return undefined;
  try {
    return JSON.stringify(Object.entries(json).filter(([name]) => !fields.includes(name)));
  } catch {
    return undefined; // nested too deeply to be serialised
  }
}

function keptHeaders(delivery: Delivery, source: ResolvedSource): Readonly<Record<string, string>> {
  const names = [...alwaysKept, ...(source.scheme.keepHeaders ?? []).map((name) => name.toLowerCase())];
  const kept = names.flatMap((name) => {
    const value = delivery.headers.get(name);
    return value === null || value.length > maxKeptLength ? [] : [[name, value] as const];
  });
  return Object.fromEntries(kept);
}
