import { ArgumentRangeError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";

export interface ConnectionLimits {
  /** Connections of this instance to all servers together: 40 by default. */
  readonly perInstance?: number;
  /** Connections of this instance to one database server: 20 by default. */
  readonly perServer?: number;
  /** Connections in the pool of one database: 2 by default, so that an acknowledgement need not wait for a claim. */
  readonly perDatabase?: number;
  /** SQLite files that are open at once: 200 by default, of three file handles each. */
  readonly files?: number;
  /** How long a call waits for a free connection before it fails: 15 s by default. */
  readonly waitMs?: number;
}

const defaults = { perInstance: 40, perServer: 20, perDatabase: 2, files: 200, waitMs: 15_000 } as const;

/** The limits with their defaults. Throws one error with everything that is wrong. */
export function requireConnectionLimits(limits: ConnectionLimits): Required<ConnectionLimits> {
  refuseUnknown(limits, Object.keys(defaults), "connections");
  const all = { ...defaults, ...limits };
  const { waitMs, ...counts } = all;
  const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 1;
  const problems = Object.entries(counts)
    .filter(([, value]) => !isCount(value))
    .map(([name, value]) => `${name} must be a whole number from 1 on, not ${String(value)}`);
  if (all.perDatabase > Math.min(all.perInstance, all.perServer)) {
    problems.push("perDatabase must not be more than perInstance or perServer");
  }
  if (problems.length > 0) throw new ArgumentRangeError(`connections: ${problems.join("; ")}.`);
  requireDuration(waitMs, "connections.waitMs");
  return all;
}
