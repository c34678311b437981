import { type Alternatives, isObject, parseAll, parseOne, type Report } from "./field-checks.js";
import {
  placeholdersInEvent,
  placeholdersInHead,
  placeholdersInSignedBody,
  placeholdersInSignedContent,
  type TemplatePart,
} from "./template.js";
import type { JwtRule, SignatureRule, VerifyRule } from "./verify-rules.js";

/** What proves a delivery, with its templates parsed. */
export interface CheckedProof {
  /** The templates of the signed content, or of the token. */
  readonly proof: Alternatives;
  /** Where the body has the signature. */
  readonly signatureIn?: readonly TemplatePart[] | undefined;
  readonly sender?: readonly TemplatePart[] | undefined;
  readonly certificateUrl?: readonly TemplatePart[] | undefined;
  readonly algorithmBy?: readonly TemplatePart[] | undefined;
  /** Of each item: values that are a claim of one of the tokens, and one that is a secret of the source. */
  readonly itemClaims?: readonly (readonly [claim: string, value: readonly TemplatePart[]])[];
  readonly itemSecret?: readonly TemplatePart[] | undefined;
}

export function readProof(verify: VerifyRule | undefined, isSplit: boolean, report: Report): CheckedProof {
  const ofItem = isSplit ? (["item"] as const) : [];
  if (verify?.kind === "signature") return readSignature(verify, ofItem, report);
  if (verify?.kind === "jwt") return readJwt(verify, ofItem, report);
  return { proof: parseAll(verify?.token, [...placeholdersInHead, ...ofItem], "verify.token", report) };
}

function readJwt(rule: JwtRule, ofItem: readonly "item"[], report: Report): CheckedProof {
  const claims = isObject(rule.itemClaims) ? Object.entries(rule.itemClaims) : [];
  return {
    proof: parseAll(rule.token, [...placeholdersInHead, "json"], "verify.token", report),
    itemClaims: claims.map(([claim, template]) => [
      claim,
      parseOne(template, ofItem, `verify.itemClaims.${claim}`, report) ?? [],
    ]),
    itemSecret: parseOne(rule.itemSecret, ofItem, "verify.itemSecret", report),
  };
}

function readSignature(rule: SignatureRule, ofItem: readonly "item"[], report: Report): CheckedProof {
  const inBody = [...placeholdersInSignedBody, ...ofItem];
  const anywhere = [...placeholdersInEvent, ...inBody];
  const mayUseBody = rule.signatureIn !== undefined;
  const allowed = mayUseBody ? [...placeholdersInSignedContent, ...inBody] : placeholdersInSignedContent;
  const one = (template: unknown, name: string) => parseOne(template, anywhere, `verify.${name}`, report);
  return {
    proof: parseAll(rule.signed ?? "{body}", allowed, "verify.signed", report),
    signatureIn: one(rule.signatureIn, "signatureIn"),
    sender: one(rule.sender, "sender"),
    certificateUrl: one(rule.certificate?.url, "certificate.url"),
    algorithmBy: one(rule.algorithmBy?.value, "algorithmBy.value"),
  };
}
