import { crc32 } from "node:zlib";
import type { WebhookScheme } from "../../../src/webhooks/index.js";
import type { JwtRule, SignatureRule, TokenRule } from "../../../src/webhooks/schemes/scheme.js";
import { withoutPort } from "./mutations.js";
import type { SignedDelivery } from "./targets.js";

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
