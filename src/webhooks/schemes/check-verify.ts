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
  type Report,
  refuseFields,
} from "./field-checks.js";
import type { CheckedProof } from "./read-proof.js";
import type { TemplatePart } from "./template.js";
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

export function checkVerify(verify: VerifyRule | undefined, proof: CheckedProof, report: Report): void {
  if (verify?.kind === "token") checkToken(verify, report);
  else if (verify?.kind === "signature") checkSignature(verify, proof, report);
  else if (verify?.kind === "jwt") checkJwt(verify, proof, report);
  else report('verify.kind must be "signature", "token" or "jwt"');
}

function checkToken(rule: TokenRule, report: Report): void {
  refuseFields(rule, ["kind", "token", "prefix"], "verify", report);
  if (asList(rule.token).length === 0) report("verify.token is missing");
  checkText(rule.prefix, "verify.prefix", report);
}

function checkSignature(rule: SignatureRule, { proof, sender }: CheckedProof, report: Report): void {
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
  if (proof.length === 0 && asList(rule.signed).length === 0) report("verify.signed is empty");
  for (const parts of proof) checkSigned(parts, rule, report);
  checkSender(sender, proof, report);
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
