import {
  type Alternatives,
  asList,
  checkHeaderPart,
  checkOneOf,
  checkText,
  parseAll,
  type Report,
  refuseFields,
} from "./field-checks.js";
import type { SignatureRule, TokenRule } from "./scheme.js";
import {
  type Placeholder,
  placeholdersInHead,
  placeholdersInSignedContent,
  type TemplatePart,
} from "./template.js";

const signatureFields = [
  "kind",
  "header",
  "separator",
  "prefix",
  "signed",
  "algorithm",
  "encoding",
  "secretEncoding",
  "keys",
  "timestamp",
  "bodyDigestQuery",
];
const digests = ["sha1", "sha256", "sha512"];
const secretEncodings = ["utf8", "hex", "base64"];

/** Returns the alternative templates of the signed content, or of the token. */
export function checkVerify(verify: SignatureRule | TokenRule | undefined, report: Report): Alternatives {
  if (verify?.kind === "token") {
    refuseFields(verify, ["kind", "token"], "verify", report);
    if (asList(verify.token).length === 0) report("verify.token is missing");
    return parseAll(verify.token, placeholdersInHead, "verify.token", report);
  }
  if (verify?.kind === "signature") return checkSignature(verify, report);
  report('verify.kind must be "signature" or "token"');
  return [];
}

function checkSignature(rule: SignatureRule, report: Report): Alternatives {
  refuseFields(rule, signatureFields, "verify", report);
  checkHeaderPart(rule, "verify", report);
  checkOneOf(rule.encoding, ["hex", "base64", "base64url"], "verify.encoding", report);
  checkOneOf(rule.algorithm, digests, "verify.algorithm", report);
  checkOneOf(rule.secretEncoding, secretEncodings, "verify.secretEncoding", report);
  if (rule.keys !== undefined) checkKeys(rule, report);
  if (rule.timestamp !== undefined) {
    checkHeaderPart(rule.timestamp, "verify.timestamp", report);
    refuseFields(rule.timestamp, ["header", "separator", "prefix", "unit"], "verify.timestamp", report);
    checkOneOf(rule.timestamp?.unit, ["s", "ms"], "verify.timestamp.unit", report);
  }
  checkText(rule.bodyDigestQuery, "verify.bodyDigestQuery", report);
  const signed = parseAll(rule.signed ?? "{body}", placeholdersInSignedContent, "verify.signed", report);
  if (signed.length === 0 && asList(rule.signed).length === 0) report("verify.signed is empty");
  for (const parts of signed) checkSigned(parts, rule, report);
  return signed;
}

/** A signature that does not cover the body, and a timestamp that is not signed, protect nothing. */
function checkSigned(parts: readonly TemplatePart[], rule: SignatureRule, report: Report): void {
  const has = (name: Placeholder) => parts.some((part) => part.placeholder === name);
  if (!has("body") && !has("sortedForm")) report("verify.signed does not contain the body; add {body}");
  if (has("timestamp") && rule.timestamp === undefined)
    report("verify.signed has a {timestamp}, but verify.timestamp is missing");
  if (!has("timestamp") && rule.timestamp !== undefined)
    report("verify.timestamp is not signed and could be forged; add {timestamp} to verify.signed");
  if (rule.bodyDigestQuery !== undefined && !has("url"))
    report("verify.bodyDigestQuery needs {url} in verify.signed");
}

function checkKeys({ keys, algorithm, secretEncoding }: SignatureRule, report: Report): void {
  if (asList(keys).length === 0) report("verify.keys is empty");
  if (algorithm !== undefined || secretEncoding !== undefined)
    report("verify.keys replaces verify.algorithm and verify.secretEncoding; give one or the other");
  for (const [index, key] of asList(keys).entries()) {
    const name = `verify.keys[${index}]`;
    refuseFields(key, ["algorithm", "secretEncoding", "secretPrefix", "prefix"], name, report);
    checkOneOf(key?.algorithm, [...digests, "ed25519"], `${name}.algorithm`, report);
    if (key?.algorithm === undefined) report(`${name}.algorithm is missing`);
    checkOneOf(key?.secretEncoding, secretEncodings, `${name}.secretEncoding`, report);
    checkText(key?.secretPrefix, `${name}.secretPrefix`, report);
    checkText(key?.prefix, `${name}.prefix`, report);
  }
}
