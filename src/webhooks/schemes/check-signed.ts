import { isObject, type Report } from "./field-checks.js";
import type { Placeholder, TemplatePart } from "./template.js";
import type { SignatureRule } from "./verify-rules.js";

/** A signature that does not cover the body, and a timestamp that is not signed, protect nothing. */
export function checkSigned(parts: readonly TemplatePart[], rule: SignatureRule, report: Report): void {
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

function checkSignedTime(parts: readonly TemplatePart[], { timestamp }: SignatureRule, report: Report): void {
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
