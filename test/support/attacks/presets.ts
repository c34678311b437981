import { crc32 } from "node:zlib";
import { memoisePromise } from "../../../src/base/async.js";
import {
  type DevelopmentKeys,
  developmentDocuments,
  developmentSecretOf,
  newDevelopmentKeys,
  signingWith,
} from "../../../src/cli/development-keys.js";
import { exampleEvent } from "../../../src/cli/example-event.js";
import {
  loadPreset,
  type PresetName,
  presetNames,
  signWebhook,
  type WebhookScheme,
} from "../../../src/webhooks/index.js";
import { createDelivery } from "../../../src/webhooks/schemes/delivery.js";
import type { JwtRule, SignatureRule, TokenRule } from "../../../src/webhooks/schemes/scheme.js";
import { resolveSources } from "../../../src/webhooks/sources.js";
import { type Below, change, withoutPort } from "./mutations.js";
import { attackedAt, attackedSettings, type SignedDelivery } from "./targets.js";

const address = "https://hooks.example.com/webhooks/s?event=1";

/** A preset as a target: a source that verifies, a delivery that it accepts, and others of which an attacker has copies. */
interface PresetTarget {
  readonly scheme: WebhookScheme;
  readonly secret: string;
  readonly genuine: SignedDelivery;
  /** Signed by the same key with another id, and by another key. */
  readonly others: readonly SignedDelivery[];
  verify(delivery: SignedDelivery): Promise<boolean>;
}

/** Whatever the preset is: its event is made as `oncebox sign` makes it, and signed with keys of its kind. */
export async function openPreset(name: PresetName): Promise<PresetTarget> {
  const scheme = await loadPreset(name);
  const [keys, otherKeys] = await bothKeys();
  const secret = developmentSecretOf(scheme, keys);
  const source = resolveSources({ s: { scheme, secrets: secret, ...tokenOf(scheme) } }, [], {
    ...attackedSettings,
    fetchText: (url, signal) => {
      if (!isPublished(url)) throw new Error("nothing else is fetched");
      return developmentDocuments(keys, () => attackedAt)(url, signal);
    },
  }).get("s")!;
  const otherEvent = signed(scheme, keys, "evt_2");
  return {
    scheme,
    secret,
    genuine: signed(scheme, keys, "evt_1"),
    others: [otherEvent, signed(scheme, otherKeys, "evt_1")],
    async verify({ headers, body, url }) {
      const get = (header: string) => headers[header.toLowerCase()] ?? null;
      const delivery = createDelivery({ method: "POST", url, headers: { get }, body });
      // a certificate that cannot be fetched is no acceptance either
      return source.verify(delivery).then(
        (refusal) => refusal === undefined,
        () => false,
      );
    },
  };
}

/** Of all kinds, made once: keys of RSA take a while. */
const bothKeys = memoisePromise(async () => {
  const schemes = await Promise.all(presetNames.map(loadPreset));
  return Promise.all([newDevelopmentKeys(schemes), newDevelopmentKeys(schemes)]);
});

const isPublished = (url: string): boolean =>
  /[/-](oncebox|oncebox\.pem|certs|keys|jwks?(\.json)?)$/.test(new URL(url).pathname);

const tokenOf = ({ handshakes = [] }: WebhookScheme) =>
  handshakes.some(({ verifyToken }) => verifyToken !== undefined)
    ? { verifyToken: "another token of bytes" }
    : {};

function signed(scheme: WebhookScheme, keys: DevelopmentKeys, id: string): SignedDelivery {
  const event = exampleEvent(scheme, id, "paid");
  const request = signWebhook(scheme, {
    ...event,
    ...signingWith(scheme, keys),
    url: address,
    timestamp: attackedAt,
    messageId: id,
  });
  const headers = Object.entries(request.headers).map(([header, value]) => [header.toLowerCase(), value]);
  return { headers: Object.fromEntries(headers), body: Buffer.from(request.body), url: request.url };
}

/** One change of a header, the URL or the body, or a part of another delivery that somebody has a copy of. */
export function mutatedPreset(
  genuine: SignedDelivery,
  others: readonly SignedDelivery[],
  below: Below,
): SignedDelivery {
  const names = Object.keys(genuine.headers).filter((name) => name !== "content-type");
  const other = others[below(others.length)]!;
  const name = names[below(names.length)];
  const value = name === undefined ? "" : genuine.headers[name]!;
  const withHeader = (text: string): SignedDelivery =>
    name === undefined ? genuine : { ...genuine, headers: { ...genuine.headers, [name]: text } };
  switch (below(7)) {
    case 0:
    case 1:
      return withHeader(change(Buffer.from(value), below).toString("latin1"));
    case 2:
      return withHeader((name && other.headers[name]) ?? "");
    case 3:
      return { ...genuine, body: below(3) === 0 ? other.body : change(genuine.body, below) };
    case 4:
      return { ...genuine, headers: other.headers };
    case 5: {
      const changed = change(Buffer.from(genuine.url), below).toString("latin1");
      return { ...genuine, url: URL.canParse(changed) ? changed : other.url };
    }
    default:
      return { ...genuine, body: changedJson(genuine.body, other.body, below) };
  }
}

/** Still JSON, with a value of it changed, taken out, repeated, or replaced by one of another delivery. */
function changedJson(body: Buffer, other: Buffer, below: Below): Buffer {
  try {
    const json: unknown = JSON.parse(body.toString());
    const theirs: unknown = JSON.parse(other.toString());
    const places = objectsIn(json);
    const at = below(places.length);
    const [object, twin] = [places[at]!, objectsIn(theirs)[at] ?? {}];
    const keys = Object.keys(object);
    const key = keys[below(keys.length)] ?? "added";
    const value = object[key];
    switch (below(6)) {
      case 0:
        delete object[key];
        break;
      case 1:
        object[key] = typeof value === "string" ? change(Buffer.from(value), below).toString("latin1") : 1;
        break;
      case 2:
        object[key] = [value, Number(value), null, [value], { value }, true][below(6)];
        break;
      case 3:
        object[key] = (twin as Record<string, unknown>)[key];
        break;
      case 4:
        if (Array.isArray(object)) object.push(value, twin);
        else object[`${key}2`] = value;
        break;
      default:
        return Buffer.from(JSON.stringify(json, undefined, 1 + below(3)));
    }
    return Buffer.from(JSON.stringify(json));
  } catch {
    return change(body, below);
  }
}

type Json = Record<string, unknown>;
const objectsIn = (value: unknown): Json[] =>
  typeof value === "object" && value !== null
    ? [value as Json, ...Object.values(value).flatMap(objectsIn)]
    : [];

/**
 * What the preset's proof says about a delivery, read here by code that is not the route's: one text for each part of the
 * delivery that has a proof of its own. A delivery that is accepted says nothing that the genuine one does not say.
 */
export function provenValues(scheme: WebhookScheme, delivery: SignedDelivery): readonly string[] {
  const { verify } = scheme;
  if (verify.kind === "token") return tokens(verify, scheme, delivery);
  if (verify.kind === "signature") return signedValues(verify, scheme, delivery);
  return tokenValues(verify, scheme, delivery);
}

/** Of each token what is signed, with the body where its hash is; of each item what must be one of the tokens'. */
function tokenValues(rule: JwtRule, scheme: WebhookScheme, delivery: SignedDelivery): readonly string[] {
  const [template = ""] = [rule.token].flat();
  const inBody = /^\{json:(\w+)\}$/.exec(template)?.[1];
  const given =
    inBody === undefined
      ? [valueAt(template, delivery).slice((rule.prefix ?? "").length)]
      : [Object(parsed(delivery.body))[inBody]].flat();
  const body = rule.bodyHash === undefined ? "" : delivery.body.toString("latin1");
  const texts = given.map((token) => {
    const [head, claims, signature = ""] = String(token).split(".");
    return JSON.stringify([head, claims, Buffer.from(signature, "base64url").toString("hex"), body]);
  });
  const ofItem = [...Object.values(rule.itemClaims ?? {}), rule.itemSecret ?? []].flat();
  const items = partsOf(scheme, ofItem.join(), delivery).map((item) =>
    JSON.stringify(ofItem.map((one) => valueAt(one, delivery, item))),
  );
  return ofItem.length === 0 ? texts : [...texts, ...items];
}

const tokens = ({ token, prefix = "" }: TokenRule, scheme: WebhookScheme, delivery: SignedDelivery) =>
  partsOf(scheme, String(token), delivery).map((item) => {
    const all = [token].flat().map((one) => valueAt(one, delivery, item));
    return (all.find((one) => one !== "") ?? "").slice(prefix.length);
  });

function signedValues(rule: SignatureRule, scheme: WebhookScheme, delivery: SignedDelivery) {
  const templates = [rule.signed ?? "{body}"].flat();
  const uses = `${templates.join()}${rule.signatureIn ?? ""}`;
  return partsOf(scheme, uses, delivery).map((item) => {
    const filled = templates.map((template) =>
      placeholders(template).map((one) => read(one, rule, delivery, item)),
    );
    // of alternatives the one that has all its values
    const values = filled.find((all) => all.every((one) => one !== undefined)) ?? [];
    // the borders between a URL and the fields of a form are not signed
    return uses.includes("{sortedForm}") ? values.join("") : JSON.stringify(values);
  });
}

const placeholders = (template: string): readonly string[] =>
  [...template.matchAll(/\{([^{}]+)\}/g)].map(([, name]) => name!);

function read(
  name: string,
  { timestamp }: SignatureRule,
  delivery: SignedDelivery,
  item: unknown,
): string | undefined {
  const { body, url, headers } = delivery;
  if (name === "body") return body.toString("latin1");
  if (name === "crc32") return String(crc32(body));
  if (name === "url") return withoutPort(URL.canParse(url) ? new URL(url).href : url);
  if (name === "sortedForm") return sorted(body.toString());
  if (name === "secret" || name === "method") return name; // nothing of the delivery
  if (name !== "timestamp")
    return valueAt(`{${name}}`, delivery, item) || (name.endsWith("?") ? "" : undefined);
  const {
    header = "",
    separator,
    prefix = "",
  } = timestamp as { header?: string; separator?: string; prefix?: string };
  const text = headers[header.split("|")[0]!.toLowerCase()] ?? "";
  const entries = (separator === undefined ? [text] : text.split(separator)).map((one) => one.trim());
  return entries.find((one) => one.startsWith(prefix));
}

const sorted = (form: string): string =>
  [...new URLSearchParams(form)]
    .sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0))
    .flat()
    .join("");

/** The items of a batch where each is proven by itself, or the delivery as a whole. */
function partsOf({ split }: WebhookScheme, uses: string, { body }: SignedDelivery): readonly unknown[] {
  if (!uses.includes("{item:")) return [undefined];
  const path = /^\{json:(.*)\}$/.exec(split ?? "")?.[1] ?? "";
  let found: unknown[] = [parsed(body)];
  for (const step of path.split(".").filter(Boolean))
    found = step === "*" ? found.flat() : found.map((one) => Object(one)[step]);
  return found.flat();
}

const parsed = (body: Buffer): unknown => {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
};

function valueAt(template: string, { headers, body, url }: SignedDelivery, item?: unknown): string {
  const [, kind, given = ""] = /^\{(\w+):([^{}]+)\}$/.exec(template) ?? [];
  const name = given.replace(/\?$/, "");
  if (kind === "header") return headers[name.split("|")[0]!.toLowerCase()] ?? "";
  if (kind === "query") return (URL.canParse(url) ? new URL(url).searchParams.get(name) : "") ?? "";
  if (kind === "form") return new URLSearchParams(body.toString()).get(name) ?? "";
  const value = name.split(".").reduce<unknown>((one, step) => Object(one)[step], item ?? parsed(body));
  return value === undefined || value === null ? "" : String(value);
}
