import { checkTexts, type Report, refuseFields } from "./field-checks.js";
import type { SignatureRule } from "./verify-rules.js";

/** At least two labels of the host are written out, so that no pattern fits a host of just anybody. */
const hostPattern = /^([a-z0-9*-]+\.)*[a-z0-9-]+\.[a-z0-9-]+$/;
const certified = ["rsa-sha256", "rsa-sha1", "ecdsa-sha256"];
const name = "verify.certificate";

export function checkCertificate(rule: SignatureRule, report: Report): void {
  const { certificate, algorithm, algorithmBy, sender, signed } = rule;
  const usesSecret = (template: unknown) => String(template).includes("{secret}");
  if (certificate === undefined) {
    if (sender !== undefined) report(`verify.sender needs ${name}`);
    if (algorithmBy !== undefined) report(`verify.algorithmBy needs ${name}`);
    if ([signed].flat().some(usesSecret)) report(`{secret} in verify.signed needs ${name}`);
    return;
  }
  refuseFields(certificate, ["url", "hosts"], name, report);
  checkHosts(certificate?.hosts, report);
  if (algorithmBy !== undefined) refuseFields(algorithmBy, ["value", "is"], "verify.algorithmBy", report);
  const algorithms = algorithmBy === undefined ? [algorithm ?? ""] : Object.values(algorithmBy?.is ?? {});
  if (algorithms.length === 0 || !algorithms.every((one) => certified.includes(String(one))))
    report(`${name} needs an algorithm: ${certified.join(", ")}`);
  if (sender === undefined && ![signed].flat().every(usesSecret))
    report(`${name} does not prove whose event it is; add verify.sender, or {secret} to verify.signed`);
}

function checkHosts(hosts: unknown, report: Report): void {
  checkTexts(hosts, `${name}.hosts`, report);
  const list: readonly unknown[] = Array.isArray(hosts) ? hosts : [];
  if (list.length === 0) report(`${name}.hosts is empty`);
  for (const host of list) {
    if (!hostPattern.test(String(host)))
      report(`${name}.hosts: ${String(host)} must be in lower case, and its last two parts without *`);
  }
}
