import { checkHeaderPart, checkOneOf, checkText, type Report, refuseFields } from "./field-checks.js";
import type { TimestampRule } from "./verify-rules.js";

export function checkTimestamp(rule: TimestampRule, report: Report): void {
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
