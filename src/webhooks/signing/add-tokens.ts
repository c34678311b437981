import { randomUUID } from "node:crypto";
import type { CheckedScheme } from "../schemes/read-scheme.js";
import { splitDelivery } from "../schemes/split-delivery.js";
import { fill } from "../schemes/template.js";
import type { JwtRule } from "../schemes/verify-rules.js";
import { type Draft, deliveryOf, setAt, withJson, written } from "./draft.js";
import { jsonWebToken, type TokenContent } from "./json-web-token.js";
import { writtenToEach } from "./write-items.js";

type Signing = Omit<TokenContent, "body" | "more">;

/** Adds the token of the request: to its head, or to its body one for each tenant that its items name. */
export function withTokens(given: Draft, checked: CheckedScheme, rule: JwtRule, signing: Signing): Draft {
  const [part] = checked.proof[0] ?? [];
  const draft = withItemValues(given, checked, signing.senders.at(-1)!);
  const { body } = deliveryOf(draft);
  if (part?.placeholder !== "json")
    return written(draft, checked.proof[0], (rule.prefix ?? "") + jsonWebToken(rule, { ...signing, body }));
  const tokens = claimsOfItems(draft, checked).map((more) => jsonWebToken(rule, { ...signing, body, more }));
  return withJson(draft, (json) => setAt(json, part.text, tokens));
}

/** Each item gets the source's secret, and what the tokens say of it, where the body does not have it. */
function withItemValues(given: Draft, checked: CheckedScheme, secret: string): Draft {
  const { itemSecret, itemClaims = [] } = checked;
  const draft = itemSecret === undefined ? given : writtenToEach(given, checked, itemSecret, () => secret);
  const made = randomUUID();
  return itemClaims.reduce(
    (so, [, parts]) => writtenToEach(so, checked, parts, (item) => fill(parts, item) ?? made),
    draft,
  );
}

/** The claims of the tokens: those of each item, and each only once. */
function claimsOfItems(draft: Draft, { split, itemClaims = [] }: CheckedScheme): Record<string, string>[] {
  const all = splitDelivery(deliveryOf(draft), split).map((item) =>
    Object.fromEntries(itemClaims.map(([claim, parts]) => [claim, fill(parts, item) ?? ""])),
  );
  return [...new Map(all.map((claims) => [JSON.stringify(claims), claims])).values()];
}
