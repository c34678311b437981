import { createHash, createPrivateKey, randomUUID } from "node:crypto";
import { InvalidArgumentError } from "../../errors.js";
import { splitDelivery } from "../schemes/delivery.js";
import type { CheckedScheme } from "../schemes/read-scheme.js";
import type { JwtRule } from "../schemes/scheme.js";
import { fill } from "../schemes/template.js";
import { type Draft, deliveryOf, setAt, withJson, written, writtenToEach } from "./draft.js";
import { signedJwt } from "./signed-jwt.js";

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

interface TokenContent {
  readonly body: Uint8Array;
  /** The values of the claims that name the sender. The last one is used for all that remain. */
  readonly senders: readonly string[];
  /** A private key in PEM. */
  readonly privateKey: string;
  readonly at: Date;
  /** Claims beside those that the rule names. */
  readonly more?: Readonly<Record<string, string>>;
}

/** Makes the token that a provider would send. It ends after an hour, as Google's does. */
function jsonWebToken(rule: JwtRule, { body, senders, privateKey, at, more = {} }: TokenContent): string {
  const [algorithm = ""] = rule.algorithms;
  const seconds = Math.floor(at.getTime() / 1_000);
  const names = rule.jwksUrl === undefined ? [] : (rule.secretClaims ?? ["aud"]);
  const claims = {
    iat: seconds,
    exp: seconds + 3_600,
    ...more,
    ...Object.fromEntries(Object.entries(rule.claims ?? {}).map(([of, text]) => [of.split("|")[0], text])),
    ...(rule.issuer === undefined
      ? {}
      : { iss: [rule.issuer].flat()[0]?.replace(/\{(\w+)\}/g, (_, name) => more[name] ?? "") }),
    ...Object.fromEntries(names.map((name, index) => [name, senders[index] ?? senders.at(-1)])),
    ...(rule.bodyHash === undefined
      ? {}
      : { [rule.bodyHash]: createHash("sha256").update(body).digest("hex") }),
  };
  if (!/^(RS|ES)(256|384|512)$/.test(algorithm))
    throw new InvalidArgumentError(`sign: a token with ${algorithm} cannot be made here.`);
  try {
    return signedJwt(algorithm, claims, createPrivateKey(privateKey));
  } catch {
    throw new InvalidArgumentError(`sign: the private key is not one for ${algorithm}, in PEM.`);
  }
}
