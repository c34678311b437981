import type { CertificateRule } from "./scheme.js";

/** Whether a certificate may be fetched there: on a host that is the provider's for this sender, and in its own folder. */
export function isCertificateAddress(url: string, rule: CertificateRule, sender: string): boolean {
  if (!isProviderAddress(url, rule, sender)) return false;
  const { href, pathname } = new URL(url);
  // With a query of its own each unproven delivery could name a new address, and so have it fetched.
  return href === url && !/[?#]/.test(url) && pathPattern(rule).test(pathname);
}

/** Whether the address is https, without a port, a user or a password, on one of the sender's hosts. */
export function isProviderAddress(url: string, rule: CertificateRule, sender: string): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname, port, username, password } = new URL(url);
  const isPlain = protocol === "https:" && port === "" && username === "" && password === "";
  return isPlain && hostsFor(rule, sender).includes(hostname);
}

/** An address at which a certificate of this sender could be: for tests and local runs. */
export const exampleAddress = (rule: CertificateRule, sender: string): string =>
  `https://${hostsFor(rule, sender)[0]}${rule.path.replace("*", "oncebox")}`;

/** Returns what is wrong with a sender's name: no host is known for it. */
export const senderProblem = (rule: CertificateRule, sender: string): string | undefined =>
  hostsFor(rule, sender).length > 0 ? undefined : `is none of ${senderPatterns(rule).join(", ")}`;

/** A name that the rule has a host for: for tests and local runs. */
export const exampleSender = (rule: CertificateRule): string =>
  (senderPatterns(rule)[0] ?? "oncebox-development").replace(/\{\w+\}|\*/g, "oncebox");

const senderPatterns = ({ hosts }: CertificateRule): readonly string[] =>
  hosts.flatMap((host) => (typeof host === "string" ? [] : host.sender));

/** The hosts of all senders, and those that this sender's name says. */
const hostsFor = ({ hosts }: CertificateRule, sender: string): readonly string[] =>
  hosts.flatMap((host) => {
    if (typeof host === "string") return host;
    const named = senderPattern(host.sender).exec(sender)?.groups;
    return named === undefined ? [] : host.host.replace(/\{(\w+)\}/g, (_, name: string) => named[name] ?? "");
  });

/** A name in braces stands for a label of a host, and `*` for anything. */
const senderPattern = (sender: string): RegExp =>
  new RegExp(
    `^${escaped(sender)
      .replace(/\\\{(\w+)\\\}/g, "(?<$1>[a-z0-9-]+)")
      .replaceAll("\\*", ".+")}$`,
  );

const pathPattern = ({ path }: CertificateRule): RegExp =>
  new RegExp(`^${escaped(path).replaceAll("\\*", "[\\w-]+")}$`);

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
