import type { LoggerOption } from "../base/logger.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { Secrets } from "../webhooks/schemes/secret-keys.js";
import type { AdminStores, AdminTenants } from "./queue-stores.js";

/** The settings of the diagnostics API that do not depend on where it runs. */
export interface AdminSettings {
  /** How long a request may wait for the database, and for the secret store, before the answer is 503. 10 s by default. */
  readonly callMs?: number;
  /** How long fetched tokens are used before they are fetched again. 5 minutes by default. */
  readonly tokensMaxAgeMs?: number;
  /** Requests that one instance answers in a minute; those without a token are counted apart. 1,200 by default. */
  readonly requestsPerMinute?: number;
}

export interface AdminOptions extends AdminSettings {
  /** The queues of one database. */
  readonly stores?: AdminStores;
  /** Instead of `stores`: the queues of many tenants. */
  readonly tenants?: AdminTenants;
  /** All tokens that are valid at present, each `name:secret`, or functions that fetch them. The name is recorded. */
  readonly tokens: Secrets;
  readonly logger?: LoggerOption;
  /** The clock by which fetched tokens grow old and minutes are counted, for tests. */
  readonly clock?: () => Date;
}

export const adminDefaults = {
  callMs: 10_000,
  tokensMaxAgeMs: 5 * 60_000,
  requestsPerMinute: 1_200,
} as const;

const known = ["stores", "tenants", "tokens", "logger", "clock", ...Object.keys(adminDefaults)];

/** Returns the options with the defaults filled in. */
export function checkAdminOptions(options: AdminOptions) {
  refuseUnknown(options, known, "admin");
  const settings = { ...adminDefaults, ...options };
  for (const name of ["callMs", "tokensMaxAgeMs"] as const) requireDuration(settings[name], name);
  const { requestsPerMinute, stores, tenants } = settings;
  if (!Number.isSafeInteger(requestsPerMinute) || requestsPerMinute < 1)
    throw new ArgumentRangeError(
      `requestsPerMinute must be a whole number, 1 or more, not ${String(requestsPerMinute)}.`,
    );
  if ((stores === undefined) === (tenants === undefined))
    throw new InvalidArgumentError("admin: give either stores or tenants.");
  return settings;
}
