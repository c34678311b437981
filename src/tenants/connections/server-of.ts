const serverWord = /(?:^|;)\s*(?:server|data source|addr|address|network address)\s*=\s*"?(?:tcp:)?([^;"]+)/i;
const usualPorts: Readonly<Record<string, string>> = { "postgres:": "5432", "postgresql:": "5432" };

/** The host and port of a URL, without its other parts: databases on the same server share that server's limit. */
export function serverOf(url: string): string {
  const [host, portInWords] = serverWord.exec(url)?.[1]?.split(",") ?? [];
  if (host !== undefined) return hostAndPort(host.trim(), portInWords?.trim() || "1433");
  // A URL without a host names a local socket.
  const readable = [url, url.replace("@/", "@localhost/")].find((one) => URL.canParse(one));
  if (readable === undefined) return "unknown"; // an `open` of the user's own reads it; an error would quote the URL
  const { protocol, hostname, port } = new URL(readable);
  return hostAndPort(hostname, port || (usualPorts[protocol] ?? "1433"));
}

const hostAndPort = (host: string, port: string): string => `${host.toLowerCase()}:${port}`;
