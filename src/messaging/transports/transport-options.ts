import { optionalCount, refuseUnknown, requireDuration } from "../../queue/arguments.js";

/** Certificates in PEM. A client that gives `ca` trusts only these; one that gives `cert` and `key` shows them to the server. */
export interface TlsMaterial {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
}

export interface TransportOptions {
  /** The longest time of one attempt, from the first byte to the last: 30 s by default. */
  readonly timeoutMs?: number;
  /** Larger responses are refused while they are read: 4 MiB by default. */
  readonly maxResponseBytes?: number;
  readonly tls?: TlsMaterial;
}

export const defaults = { timeoutMs: 30_000, maxResponseBytes: 4 * 1_024 * 1_024 } as const;

/** Refuses unknown and bad options, and fills in the defaults. */
export function checkedOptions<T extends TransportOptions>(
  options: T,
  ownNames: readonly string[],
  what: string,
): T & typeof defaults {
  refuseUnknown(options, ["timeoutMs", "maxResponseBytes", "tls", ...ownNames], what);
  const checked = { ...defaults, ...options };
  requireDuration(checked.timeoutMs, `${what}: timeoutMs`);
  optionalCount(checked.maxResponseBytes, `${what}: maxResponseBytes`, 1);
  if (options.tls !== undefined) refuseUnknown(options.tls, ["ca", "cert", "key"], `${what}: tls`);
  return checked;
}
