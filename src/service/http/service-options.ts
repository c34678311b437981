import type { LoggerOption } from "../../base/logger.js";
import type { Metrics } from "../../base/metrics.js";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import type { Secrets } from "../../webhooks/schemes/secret-keys.js";
import type { LeasingInboxStore } from "../inbox-store.js";

/** The settings of the service that do not depend on where it runs. */
export interface InboxServiceSettings {
  /** `"none"` lets everybody in who can reach the service. Without it the service has tokens. */
  readonly auth?: "none";
  /** The shortest lease that a caller may ask for: 30 by default. */
  readonly minLeaseSeconds?: number;
  /** The longest lease that a caller may ask for: 120 by default. */
  readonly maxLeaseSeconds?: number;
  /** How long the store and the secret store may each take before the answer is 503. 5 s by default. */
  readonly callMs?: number;
  /** How long fetched tokens are used before they are fetched again. 5 minutes by default. */
  readonly tokensMaxAgeMs?: number;
}

export interface InboxServiceOptions extends InboxServiceSettings {
  /** Where keys are kept: the SQL store, or any other one. */
  readonly store: LeasingInboxStore;
  /** All bearer tokens that are valid at present, or functions that fetch them. */
  readonly tokens?: Secrets;
  readonly logger?: LoggerOption;
  readonly metrics?: Metrics;
  /** The clock by which fetched tokens grow old, for tests. */
  readonly clock?: () => Date;
}

export const inboxServiceDefaults = {
  minLeaseSeconds: 30,
  maxLeaseSeconds: 120,
  callMs: 5_000,
  tokensMaxAgeMs: 5 * 60_000,
} as const;

/** A longer lease would keep the key of a dead caller for too long. */
const longestLeaseSeconds = 3_600;

const known = ["store", "tokens", "auth", "logger", "metrics", "clock", ...Object.keys(inboxServiceDefaults)];

/** Returns the options with the defaults filled in. */
export function checkServiceOptions(options: InboxServiceOptions) {
  refuseUnknown(options, known, "service");
  const settings = { ...inboxServiceDefaults, ...options };
  for (const name of ["callMs", "tokensMaxAgeMs"] as const) requireDuration(settings[name], name);
  requireLeaseBounds(settings.minLeaseSeconds, settings.maxLeaseSeconds);
  const { store, tokens, auth } = options;
  if (typeof store?.tryBegin !== "function")
    throw new InvalidArgumentError("service: store must be an inbox store that leases keys.");
  if (auth !== undefined && auth !== "none")
    throw new InvalidArgumentError('service: auth can only be "none". For bearer tokens, give tokens.');
  if ((tokens === undefined) === (auth === undefined))
    throw new InvalidArgumentError('service: give either tokens or auth: "none".');
  return settings;
}

function requireLeaseBounds(least: number, most: number): void {
  const isRight =
    Number.isInteger(least) &&
    Number.isInteger(most) &&
    least >= 1 &&
    least <= most &&
    most <= longestLeaseSeconds;
  if (!isRight)
    throw new ArgumentRangeError(
      `minLeaseSeconds and maxLeaseSeconds must be whole numbers from 1 to ${longestLeaseSeconds}, the first not above the second, not ${String(least)} and ${String(most)}.`,
    );
}
