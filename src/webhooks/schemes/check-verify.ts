import {
  asList,
  checkHeaderPart,
  checkOneOf,
  checkText,
  checkTexts,
  checkTrue,
  isHeaderName,
  isObject,
  objectOf,
  type Report,
  refuseFields,
} from "./field-checks.js";
import type { CheckedProof } from "./read-scheme.js";
import type { JwtRule, SignatureRule, TimestampRule, TokenRule, VerifyRule } from "./scheme.js";
import type { Alternatives, ParsedTemplate, Placeholder } from "./template.js";

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
function checkSender(sender: ParsedTemplate | undefined, signed: Alternatives, report: Report): void {
  for (const { placeholder, text } of sender ?? []) {
    const isIn = (parts: ParsedTemplate) =>
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

const signatureAlgorithms = ["sha1", "sha256", "sha512", "ed25519", "ecdsa-sha256", "rsa-sha256", "rsa-sha1"];
const secretEncodings = ["utf8", "hex", "base64"];

function checkKeys({ keys, algorithm, secretEncoding }: SignatureRule, report: Report): void {
  if (asList(keys).length === 0) report("verify.keys is empty");
  if (algorithm !== undefined || secretEncoding !== undefined)
    report("verify.keys replaces verify.algorithm and verify.secretEncoding; give one or the other");
  for (const [index, key] of asList(keys).entries()) {
    const name = `verify.keys[${index}]`;
    refuseFields(key, ["algorithm", "secretEncoding", "secretPrefix", "prefix"], name, report);
    checkOneOf(key?.algorithm, signatureAlgorithms, `${name}.algorithm`, report);
    if (key?.algorithm === undefined) report(`${name}.algorithm is missing`);
    checkOneOf(key?.secretEncoding, secretEncodings, `${name}.secretEncoding`, report);
    checkText(key?.secretPrefix, `${name}.secretPrefix`, report);
    checkText(key?.prefix, `${name}.prefix`, report);
  }
}

function checkTimestamp(rule: TimestampRule, report: Report): void {
  const name = "verify.timestamp";
  checkOneOf(rule?.unit, ["s", "ms", "iso"], `${name}.unit`, report);
  if (rule?.maxAgeMs !== undefined && !(typeof rule.maxAgeMs === "number" && rule.maxAgeMs > 0))
    report(`${name}.maxAgeMs must be a number above 0`);
  if (rule !== null && typeof rule === "object" && "json" in rule) {
    refuseFields(rule, ["json", "unit", "maxAgeMs"], name, report);
    checkText(rule.json, `${name}.json`, report);
    return;
  }
  checkHeaderPart(rule, name, report);
  refuseFields(rule, ["header", "separator", "prefix", "unit", "maxAgeMs"], name, report);
}

/** At least two labels of the host are written out, so that no pattern fits a host of just anybody. */
const hostPattern = /^([a-z0-9*-]+\.)*[a-z0-9-]+\.[a-z0-9-]+$/;
const certified = ["rsa-sha256", "rsa-sha1", "ecdsa-sha256"];
const certificateField = "verify.certificate";

function checkCertificate(rule: SignatureRule, report: Report): void {
  const { certificate, algorithm, algorithmBy, sender, signed } = rule;
  const usesSecret = (template: unknown) => String(template).includes("{secret}");
  if (certificate === undefined) {
    if (sender !== undefined) report(`verify.sender needs ${certificateField}`);
    if (algorithmBy !== undefined) report(`verify.algorithmBy needs ${certificateField}`);
    if ([signed].flat().some(usesSecret)) report(`{secret} in verify.signed needs ${certificateField}`);
    return;
  }
  refuseFields(certificate, ["url", "hosts"], certificateField, report);
  checkHosts(certificate?.hosts, report);
  if (algorithmBy !== undefined) refuseFields(algorithmBy, ["value", "is"], "verify.algorithmBy", report);
  const algorithms = algorithmBy === undefined ? [algorithm ?? ""] : Object.values(algorithmBy?.is ?? {});
  if (algorithms.length === 0 || !algorithms.every((one) => certified.includes(String(one))))
    report(`${certificateField} needs an algorithm: ${certified.join(", ")}`);
  if (sender === undefined && ![signed].flat().every(usesSecret))
    report(
      `${certificateField} does not prove whose event it is; add verify.sender, or {secret} to verify.signed`,
    );
}

function checkHosts(hosts: unknown, report: Report): void {
  checkTexts(hosts, `${certificateField}.hosts`, report);
  const list: readonly unknown[] = Array.isArray(hosts) ? hosts : [];
  if (list.length === 0) report(`${certificateField}.hosts is empty`);
  for (const host of list) {
    if (!hostPattern.test(String(host)))
      report(
        `${certificateField}.hosts: ${String(host)} must be in lower case, and its last two parts without *`,
      );
  }
}

/** A signature that does not cover the body, and a timestamp that is not signed, protect nothing. */
function checkSigned(parts: ParsedTemplate, rule: SignatureRule, report: Report): void {
  const has = (name: Placeholder) => parts.some((part) => part.placeholder === name);
  const coversBody = has("body") || has("sortedForm") || has("crc32");
  if (!coversBody && rule.signsPart === undefined)
    report("verify.signed does not contain the body; add {body}, or say signsPart: true");
  if (!parts.some((part) => part.placeholder !== undefined && !part.isOptional))
    report("verify.signed has no placeholder that a delivery must have");
  checkSignedTime(parts, rule, report);
  if (rule.bodyDigestQuery !== undefined && !has("url"))
    report("verify.bodyDigestQuery needs {url} in verify.signed");
}

function checkSignedTime(parts: ParsedTemplate, { timestamp }: SignatureRule, report: Report): void {
  const has = (name: Placeholder) => parts.some((part) => part.placeholder === name);
  if (has("timestamp") && timestamp === undefined)
    report("verify.signed has a {timestamp}, but verify.timestamp is missing");
  if (!isObject(timestamp)) return; // its own check says so
  if (!("json" in timestamp)) {
    if (!has("timestamp"))
      report("verify.timestamp is not signed and could be forged; add {timestamp} to verify.signed");
    return;
  }
  const { json } = timestamp;
  if (has("timestamp")) report(`verify.signed has a {timestamp}, which is in the body; write {json:${json}}`);
  const isSigned = has("body") || parts.some((part) => part.placeholder === "json" && part.text === json);
  if (!isSigned)
    report(`verify.timestamp is not signed and could be forged; add {json:${json}} to verify.signed`);
}

const jwtFields = [
  "kind",
  "token",
  "prefix",
  "jwksUrl",
  "algorithms",
  "issuer",
  "claims",
  "secretClaims",
  "itemClaims",
  "itemSecret",
  "bodyHash",
];
/** Those of public keys. With a shared secret whoever verifies could sign. */
const publicAlgorithm = /^(RS|PS|ES)(256|384|512)$|^EdDSA$/;

function checkJwt(rule: JwtRule, { proof }: CheckedProof, report: Report): void {
  refuseFields(rule, jwtFields, "verify", report);
  if (asList(rule.token).length === 0) report("verify.token is missing");
  for (const name of ["prefix", "bodyHash", "jwksUrl"] as const)
    checkText(rule[name], `verify.${name}`, report);
  for (const name of ["secretClaims", "issuer"] as const)
    checkTexts(rule[name] === undefined ? undefined : asList(rule[name]), `verify.${name}`, report);
  if (!/^https:/.test(String(rule.jwksUrl ?? "https:"))) report("verify.jwksUrl must be an https URL");
  if (rule.secretClaims?.length === 0) report("verify.secretClaims is empty");
  const algorithms = asList(rule.algorithms);
  if (algorithms.length === 0 || !algorithms.every((one) => publicAlgorithm.test(String(one))))
    report("verify.algorithms must be a list of RS256, PS256, ES256, EdDSA and their like");
  for (const name of ["claims", "itemClaims"] as const)
    if (!isObject(rule[name] ?? {})) report(`verify.${name} must be an object`);
  checkTexts(Object.values(objectOf(rule.claims)), "verify.claims", report);
  const parts = proof.flat();
  if (parts.length > 1 && parts.some(({ placeholder }) => placeholder === "json"))
    report("verify.token has a {json:…}, which must be all of it");
}
