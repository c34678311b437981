import { InvalidArgumentError } from "../../errors.js";
import { pemKey } from "../schemes/key-pair.js";
import type { CheckedScheme } from "../schemes/read-scheme.js";
import type { SignatureRule } from "../schemes/scheme.js";
import type { SigningKey } from "../schemes/signing-key.js";
import { fill, parseTemplate, placeholdersInEvent, type TemplatePart } from "../schemes/template.js";
import type { PublicKeyAlgorithm } from "../schemes/verify-rules.js";
import { type Draft, deliveryOf, written } from "./draft.js";

/** Adds what a delivery says about its certificate: its address, the algorithm, and the sender. */
export function withCertificate(
  given: Draft,
  { certificateUrl, sender }: CheckedScheme,
  rule: SignatureRule,
  name: string,
): Draft {
  const host = rule.certificate!.hosts[0]!.replaceAll("*", "1");
  const named = written(written(given, certificateUrl, `https://${host}/oncebox.pem`), sender, name);
  const isGiven = fill(algorithmAt(rule), deliveryOf(named)) !== undefined;
  const [last] = Object.keys(rule.algorithmBy?.is ?? {}).slice(-1);
  return isGiven || last === undefined ? named : written(named, algorithmAt(rule), last);
}

/** The private key that signs, with the name of the sender. */
export function certificateKey(
  draft: Draft,
  rule: SignatureRule,
  name: string,
  privateKey: string | undefined,
): SigningKey {
  if (privateKey === undefined)
    throw new InvalidArgumentError("sign: the provider signs with its own key. Give a privateKey of yours.");
  const value = fill(algorithmAt(rule), deliveryOf(draft)) ?? "";
  const algorithm = rule.algorithm ?? rule.algorithmBy?.is[value];
  const key = pemKey(privateKey.trim(), algorithm as PublicKeyAlgorithm, rule.prefix ?? "");
  if (typeof key === "string") throw new InvalidArgumentError(`sign: privateKey ${key}.`);
  return { ...key, secret: name };
}

/** Where the delivery says which algorithm it is signed with. */
function algorithmAt({ algorithmBy }: SignatureRule): readonly TemplatePart[] {
  const parts = algorithmBy && parseTemplate(algorithmBy.value, placeholdersInEvent);
  return parts === undefined || typeof parts === "string"
    ? [{ placeholder: "header", text: "x-none" }]
    : parts;
}
