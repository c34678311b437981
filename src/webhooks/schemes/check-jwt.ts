import type { CheckedProof } from "./check-verify.js";
import { asList, checkText, checkTexts, parseAll, type Report, refuseFields } from "./field-checks.js";
import { placeholdersInHead } from "./template.js";
import type { JwtRule } from "./verify-rules.js";

const fields = ["kind", "token", "prefix", "jwksUrl", "algorithms", "issuer", "secretClaims", "bodyHash"];
/** Those of public keys. With a shared secret whoever verifies could sign. */
const algorithms = /^(RS|PS|ES)(256|384|512)$|^EdDSA$/;

export function checkJwt(rule: JwtRule, report: Report): CheckedProof {
  refuseFields(rule, fields, "verify", report);
  if (asList(rule.token).length === 0) report("verify.token is missing");
  checkText(rule.prefix, "verify.prefix", report);
  checkText(rule.bodyHash, "verify.bodyHash", report);
  checkTexts(rule.secretClaims, "verify.secretClaims", report);
  checkTexts(rule.issuer === undefined ? undefined : asList(rule.issuer), "verify.issuer", report);
  const { jwksUrl } = rule;
  if (jwksUrl !== undefined && !(URL.canParse(jwksUrl) && new URL(jwksUrl).protocol === "https:"))
    report("verify.jwksUrl must be an https URL");
  if (rule.secretClaims !== undefined && (jwksUrl === undefined || rule.secretClaims.length === 0))
    report("verify.secretClaims needs verify.jwksUrl and at least one claim");
  const given = asList(rule.algorithms);
  if (given.length === 0 || !given.every((one) => algorithms.test(String(one))))
    report("verify.algorithms must be a list of RS256, PS256, ES256, EdDSA and their like");
  return { proof: parseAll(rule.token, placeholdersInHead, "verify.token", report) };
}
