import { checkCertificate } from "./check-certificate.js";
import { checkJwt } from "./check-jwt.js";
import { checkKeys, secretEncodings, signatureAlgorithms } from "./check-keys.js";
import { checkSigned } from "./check-signed.js";
import { checkTimestamp } from "./check-timestamp.js";
import {
  type Alternatives,
  asList,
  checkHeaderPart,
  checkOneOf,
  checkText,
  checkTrue,
  isHeaderName,
  parseAll,
  parseOne,
  type Report,
  refuseFields,
} from "./field-checks.js";
import {
  placeholdersInEvent,
  placeholdersInHead,
  placeholdersInSignedBody,
  placeholdersInSignedContent,
  type TemplatePart,
} from "./template.js";
import type { SignatureRule, TokenRule, VerifyRule } from "./verify-rules.js";

const signatureFields = [
  "kind",
  "header",
  "headers",
  "signatureIn",
  "separator",
  "prefix",
  "signed",
  "signsPart",
  "algorithm",
  "algorithmBy",
  "encoding",
  "secretEncoding",
  "keys",
  "certificate",
  "sender",
  "timestamp",
  "bodyDigestQuery",
];

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

export function checkVerify(verify: VerifyRule | undefined, isSplit: boolean, report: Report): CheckedProof {
  if (verify?.kind === "token") return checkToken(verify, isSplit, report);
  if (verify?.kind === "signature") return checkSignature(verify, isSplit, report);
  if (verify?.kind === "jwt") return checkJwt(verify, isSplit, report);
  report('verify.kind must be "signature", "token" or "jwt"');
  return { proof: [] };
}

function checkToken(rule: TokenRule, isSplit: boolean, report: Report): CheckedProof {
  refuseFields(rule, ["kind", "token", "prefix"], "verify", report);
  if (asList(rule.token).length === 0) report("verify.token is missing");
  checkText(rule.prefix, "verify.prefix", report);
  const allowed = isSplit ? [...placeholdersInHead, "item" as const] : placeholdersInHead;
  return { proof: parseAll(rule.token, allowed, "verify.token", report) };
}

function checkSignature(rule: SignatureRule, isSplit: boolean, report: Report): CheckedProof {
  refuseFields(rule, signatureFields, "verify", report);
  checkPlace(rule, report);
  checkOneOf(rule.encoding, ["hex", "base64", "base64url"], "verify.encoding", report);
  checkOneOf(rule.algorithm, signatureAlgorithms, "verify.algorithm", report);
  checkOneOf(rule.secretEncoding, secretEncodings, "verify.secretEncoding", report);
  checkTrue(rule.signsPart, "verify.signsPart", report);
  if (rule.keys !== undefined) checkKeys(rule, report);
  if (rule.timestamp !== undefined) checkTimestamp(rule.timestamp, report);
  checkCertificate(rule, report);
  checkText(rule.bodyDigestQuery, "verify.bodyDigestQuery", report);
  const inBody = isSplit ? [...placeholdersInSignedBody, "item" as const] : placeholdersInSignedBody;
  const anywhere = [...placeholdersInEvent, ...inBody];
  const mayUseBody = rule.signatureIn !== undefined;
  const allowed = mayUseBody ? [...placeholdersInSignedContent, ...inBody] : placeholdersInSignedContent;
  const signed = parseAll(rule.signed ?? "{body}", allowed, "verify.signed", report);
  if (signed.length === 0 && asList(rule.signed).length === 0) report("verify.signed is empty");
  for (const parts of signed) checkSigned(parts, rule, report);
  const sender = parseOne(rule.sender, anywhere, "verify.sender", report);
  checkSender(sender, signed, report);
  return {
    proof: signed,
    signatureIn: parseOne(rule.signatureIn, anywhere, "verify.signatureIn", report),
    sender,
    certificateUrl: parseOne(rule.certificate?.url, anywhere, "verify.certificate.url", report),
    algorithmBy: parseOne(rule.algorithmBy?.value, anywhere, "verify.algorithmBy.value", report),
  };
}

/** A name that is not signed could be anybody's. */
function checkSender(
  sender: readonly TemplatePart[] | undefined,
  signed: Alternatives,
  report: Report,
): void {
  for (const { placeholder, text } of sender ?? []) {
    const isIn = (parts: readonly TemplatePart[]) =>
      parts.some((part) => part.placeholder === placeholder && part.text === text);
    if (placeholder !== undefined && !signed.every(isIn))
      report(`verify.sender is not signed; add {${placeholder}:${text}} to verify.signed`);
  }
}

/** One of three places, and no more. */
function checkPlace(rule: SignatureRule, report: Report): void {
  const { header, headers, signatureIn } = rule;
  const given = [header, headers, signatureIn].filter((place) => place !== undefined);
  if (given.length !== 1) report("verify needs one of header, headers and signatureIn");
  else if (header !== undefined) checkHeaderPart(rule, "verify", report);
  else checkHeaderPart({ ...rule, header: "x" }, "verify", report);
  if (headers !== undefined && !(Array.isArray(headers) && headers.length > 0 && headers.every(isHeaderName)))
    report("verify.headers must be a list of header names");
}
