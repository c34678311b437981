import { isIP } from "node:net";

/** What a connection's socket says of itself. A local socket has no remote address. */
export interface ConnectedSocket {
  readonly encrypted?: boolean;
  readonly remoteAddress?: string | undefined;
}

type Warn = (text: string, options: { code: string }) => void;

/** Hosts that were warned of. */
const warned = new Set<string>();

/**
 * Warns once for each address that is reached without TLS and is not this machine: anyone on the way can read passwords and
 * payloads. pg connects without TLS unless `sslmode` or `ssl` says otherwise.
 */
export function warnWithoutTls(
  { encrypted = false, remoteAddress }: ConnectedSocket,
  warn: Warn = (text, options) => process.emitWarning(text, options),
): void {
  if (encrypted || remoteAddress === undefined || isIP(remoteAddress) === 0) return;
  const isLocal = /^(::ffff:)?127\./.test(remoteAddress) || remoteAddress === "::1";
  if (isLocal || warned.has(remoteAddress)) return;
  warned.add(remoteAddress);
  warn(
    `PostgreSQL at ${remoteAddress} is used without TLS: anyone on the way can read passwords and payloads. Add ?sslmode=verify-full to the URL.`,
    { code: "ONCEBOX_POSTGRES_WITHOUT_TLS" },
  );
}
