import { asList, checkText, checkTexts, isObject, type Report, refuseFields } from "./field-checks.js";
import type { CheckedProof } from "./read-proof.js";
import type { JwtRule } from "./verify-rules.js";

const fields = [
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

export function checkJwt(rule: JwtRule, { proof }: CheckedProof, report: Report): void {
  refuseFields(rule, fields, "verify", report);
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
  checkTexts(Object.values(objectOf(rule.claims, "claims", report)), "verify.claims", report);
  objectOf(rule.itemClaims, "itemClaims", report);
  const parts = proof.flat();
  if (parts.length > 1 && parts.some(({ placeholder }) => placeholder === "json"))
    report("verify.token has a {json:…}, which must be all of it");
}

function objectOf(given: object | undefined, name: string, report: Report): object {
  if (given !== undefined && !isObject(given)) report(`verify.${name} must be an object`);
  return isObject(given) ? given : {};
}
