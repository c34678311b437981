const serverWord = /(?:^|;)\s*(?:server|data source|addr|address|network address)\s*=\s*"?(?:tcp:)?([^;"]+)/i;
const usualPorts: Readonly<Record<string, string>> = { "postgres:": "5432", "postgresql:": "5432" };

/** Host and port: databases with the same share a server's connections. Nothing else of the URL gets out. */
export function serverOf(url: string): string {
  const [host, portInWords] = serverWord.exec(url)?.[1]?.split(",") ?? [];
  if (host !== undefined) return named(host.trim(), portInWords?.trim() || "1433");
  // A URL without a host is a local socket's.
  const readable = [url, url.replace("@/", "@localhost/")].find((one) => URL.canParse(one));
  if (readable === undefined) return "unknown"; // for an `open` of the user's own; an error would quote the URL
  const { protocol, hostname, port } = new URL(readable);
  return named(hostname, port || (usualPorts[protocol] ?? "1433"));
}

const named = (host: string, port: string): string => `${host.toLowerCase()}:${port}`;
