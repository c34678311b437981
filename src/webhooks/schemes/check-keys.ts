import { asList, checkOneOf, checkText, type Report, refuseFields } from "./field-checks.js";
import type { SignatureRule } from "./verify-rules.js";

export const signatureAlgorithms = [
  "sha1",
  "sha256",
  "sha512",
  "ed25519",
  "ecdsa-sha256",
  "rsa-sha256",
  "rsa-sha1",
];
export const secretEncodings = ["utf8", "hex", "base64"];

export function checkKeys({ keys, algorithm, secretEncoding }: SignatureRule, report: Report): void {
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
