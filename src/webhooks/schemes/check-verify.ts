import { longestMs } from "../../queue/retry-policy.js";
import {
  anything,
  asList,
  type Check,
  checkFields,
  fields,
  headerNames,
  isHeaderName,
  isObject,
  numberUpTo,
  objectOf,
  oneOf,
  onlyTrue,
  type Report,
  text,
  texts,
} from "./field-checks.js";
import type { CheckedProof } from "./read-scheme.js";
import type {
  HeaderPart,
  JwtRule,
  KeyRule,
  SenderHost,
  SignatureRule,
  TokenRule,
  VerifyRule,
} from "./scheme.js";
import type { Alternatives, ParsedTemplate, Placeholder } from "./template.js";

export function checkVerify(verify: VerifyRule | undefined, proof: CheckedProof, report: Report): void {
  if (verify?.kind === "token") checkToken(verify, report);
  else if (verify?.kind === "signature") checkSignature(verify, proof, report);
  else if (verify?.kind === "jwt") checkJwt(verify, proof, report);
  else report('verify.kind must be "signature", "token" or "jwt"');
}

function checkToken(rule: TokenRule, report: Report): void {
  checkFields(rule, "verify", { kind: anything, token: anything, prefix: text }, report);
  if (asList(rule.token).length === 0) report("verify.token is missing");
}

const algorithm = oneOf(["sha1", "sha256", "sha512", "ed25519", "ecdsa-sha256", "rsa-sha256", "rsa-sha1"]);
const secretEncoding = oneOf(["utf8", "hex", "base64"]);

const headerList: Check = (value, name, report) => {
  if (!(Array.isArray(value) && value.length > 0 && value.every(isHeaderName)))
    report(`${name} must be a list of header names`);
};

function checkSignature(rule: SignatureRule, { proof, sender }: CheckedProof, report: Report): void {
  const { header, headers, signatureIn } = rule;
  checkFields(rule, "verify", signatureChecks, report);
  if ([header, headers, signatureIn].filter((place) => place !== undefined).length !== 1)
    report("verify needs one of header, headers and signatureIn");
  if (rule.keys !== undefined && (rule.algorithm !== undefined || rule.secretEncoding !== undefined))
    report("verify.keys replaces verify.algorithm and verify.secretEncoding; give one or the other");
  checkCertificate(rule, report);
  if (proof.length === 0 && asList(rule.signed).length === 0) report("verify.signed is empty");
  for (const parts of proof) checkSigned(parts, rule, report);
  checkSender(sender, proof, report);
}

const keyRule = fields({ algorithm, secretEncoding, secretPrefix: text, prefix: text });

const keyRules: Check = (value, name, report) => {
  const keys = asList(value);
  if (keys.length === 0) report(`${name} is empty`);
  for (const [index, key] of keys.entries()) {
    keyRule(key, `${name}[${index}]`, report);
    if ((key as Partial<KeyRule> | null)?.algorithm === undefined)
      report(`${name}[${index}].algorithm is missing`);
  }
};

const timeChecks = { unit: oneOf(["s", "ms", "iso"]), maxAgeMs: numberUpTo(longestMs) };
const timeInBody = fields({ json: text, ...timeChecks });
const timeInHeader = fields({ header: headerNames, separator: text, prefix: text, ...timeChecks });

const timestamp: Check = (value, name, report) => {
  if (isObject(value) && "json" in value) return timeInBody(value, name, report);
  timeInHeader(value, name, report);
  if ((value as Partial<HeaderPart> | null)?.header === undefined) report(`${name}.header is missing`);
};

/** The last two labels of a host are written out, so that none is a host of just anybody. */
const hostPattern = /^(([a-z0-9-]|\{\w+\})+\.)*[a-z0-9-]+\.[a-z0-9-]+$/;
const senderHost = fields({ sender: text, host: text });

const hosts: Check = (value, name, report) => {
  for (const one of asList(value)) {
    if (typeof one !== "string") senderHost(one, name, report);
    const { sender = "", host = one } = objectOf(one) as Partial<SenderHost>;
    if (!hostPattern.test(String(host)))
      report(`${name}: ${String(host)} must be a host in lower case, and its last two parts written out`);
    for (const [word] of String(host).matchAll(/\{\w+\}/g))
      if (!String(sender).includes(word))
        report(`${name}: ${String(host)} has ${word}, which sender has not`);
  }
};

/** It is a file of one folder: whoever can write elsewhere on the host has no certificate there. */
const certificatePath: Check = (value, name, report) => {
  if (!/^\/[\w/.-]*\*?[\w.-]*$/.test(String(value)))
    report(`${name} must begin with a slash, and have one * at most, after the last slash`);
};

const signatureChecks = {
  kind: anything,
  header: headerNames,
  headers: headerList,
  signatureIn: anything,
  separator: text,
  prefix: text,
  signed: anything,
  signsPart: onlyTrue,
  algorithm,
  algorithmBy: fields({ value: anything, is: anything }),
  encoding: oneOf(["hex", "base64", "base64url"]),
  secretEncoding,
  keys: keyRules,
  certificate: fields({ url: anything, hosts, path: certificatePath }),
  sender: anything,
  timestamp,
  bodyDigestQuery: text,
};

const certified = ["rsa-sha256", "rsa-sha1", "ecdsa-sha256"];

function checkCertificate(rule: SignatureRule, report: Report): void {
  const { certificate, algorithm, algorithmBy, sender, signed } = rule;
  const usesSecret = (template: unknown) => String(template).includes("{secret}");
  if (certificate === undefined) {
    if (sender !== undefined) report("verify.sender needs verify.certificate");
    if (algorithmBy !== undefined) report("verify.algorithmBy needs verify.certificate");
    if ([signed].flat().some(usesSecret)) report("{secret} in verify.signed needs verify.certificate");
    return;
  }
  if (asList(certificate?.hosts).length === 0) report("verify.certificate.hosts is empty");
  if (certificate?.path === undefined) report("verify.certificate.path is missing");
  if (sender === undefined && asList(certificate?.hosts).some((host) => typeof host !== "string"))
    report("verify.certificate.hosts has a sender, but verify.sender is missing");
  const algorithms = algorithmBy === undefined ? [algorithm] : Object.values(algorithmBy?.is ?? {});
  if (algorithms.length === 0 || !algorithms.every((one) => certified.includes(String(one))))
    report(`verify.certificate needs an algorithm: ${certified.join(", ")}`);
  if (sender === undefined && ![signed].flat().every(usesSecret))
    report(
      "verify.certificate does not prove whose event it is; add verify.sender, or {secret} to verify.signed",
    );
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

/** A name that is not signed could be anybody's. */
function checkSender(sender: ParsedTemplate | undefined, signed: Alternatives, report: Report): void {
  for (const { placeholder, text } of sender ?? []) {
    const isIn = (parts: ParsedTemplate) =>
      parts.some((part) => part.placeholder === placeholder && part.text === text);
    if (placeholder !== undefined && !signed.every(isIn))
      report(`verify.sender is not signed; add {${placeholder}:${text}} to verify.signed`);
  }
}

/** Those of public keys. With a shared secret whoever verifies could sign. */
const publicAlgorithm = /^(RS|PS|ES)(256|384|512)$|^EdDSA$/;

const oneOrMoreTexts: Check = (value, name, report) => {
  texts(asList(value), name, report);
  if (asList(value).length === 0) report(`${name} is empty`);
};

const object: Check = (value, name, report) => {
  if (!isObject(value)) report(`${name} must be an object`);
};

const jwtChecks = {
  kind: anything,
  token: anything,
  prefix: text,
  jwksUrl: text,
  algorithms: anything,
  issuer: oneOrMoreTexts,
  keyClaims: object,
  claims: object,
  secretClaims: oneOrMoreTexts,
  itemClaims: object,
  itemSecret: anything,
  bodyHash: text,
};

function checkJwt(rule: JwtRule, { proof }: CheckedProof, report: Report): void {
  checkFields(rule, "verify", jwtChecks, report);
  if (asList(rule.token).length === 0) report("verify.token is missing");
  if (!/^https:/.test(rule.jwksUrl ?? "https:")) report("verify.jwksUrl must be an https URL");
  const algorithms = asList(rule.algorithms);
  if (algorithms.length === 0 || !algorithms.every((one) => publicAlgorithm.test(String(one))))
    report("verify.algorithms must be a list of RS256, PS256, ES256, EdDSA and their like");
  texts(Object.values(objectOf(rule.claims)), "verify.claims", report);
  texts(Object.values(objectOf(rule.keyClaims)), "verify.keyClaims", report);
  const parts = proof.flat();
  if (parts.length > 1 && parts.some(({ placeholder }) => placeholder === "json"))
    report("verify.token has a {json:…}, which must be all of it");
}
