import { checkTexts, type Report, refuseFields } from "./field-checks.js";
import type { SignatureRule } from "./verify-rules.js";

/** At least two labels of the host are written out, so that no pattern fits a host of just anybody. */
const hostPattern = /^[a-z0-9*-]+(\.[a-z0-9*-]+)*(\.[a-z0-9-]+){2}$/;

export function checkCertificate(rule: SignatureRule, report: Report): void {
  const name = "verify.certificate";
  refuseFields(rule.certificate as object, ["url", "hosts"], name, report);
  const hosts = rule.certificate?.hosts ?? [];
  checkTexts(hosts, `${name}.hosts`, report);
  if (hosts.length === 0) report(`${name}.hosts is empty`);
  for (const host of hosts) {
    if (!hostPattern.test(host))
      report(`${name}.hosts: ${host} must be a host in lower case whose last two parts have no *`);
  }
  if (!rule.algorithm?.startsWith("rsa-") && !rule.algorithm?.startsWith("ecdsa-"))
    report(`${name} needs verify.algorithm rsa-sha256, rsa-sha1 or ecdsa-sha256`);
  const pinsSender =
    rule.sender !== undefined || [rule.signed].flat().every((one) => one?.includes("{secret}"));
  if (!pinsSender)
    report(
      `${name} proves the provider and not the customer; add verify.sender, or {secret} to verify.signed`,
    );
}
