/** Whether the address is https, without a port, a user or a password, on one of the hosts. */
export function isPinned(url: string, hosts: readonly string[]): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname, port, username, password } = new URL(url);
  const isPlain = protocol === "https:" && port === "" && username === "" && password === "";
  return isPlain && hosts.some((pattern) => toRegExp(pattern).test(hostname));
}

/** A `*` stands for letters and digits. */
const toRegExp = (pattern: string): RegExp =>
  new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", "[a-z0-9]+")}$`);
