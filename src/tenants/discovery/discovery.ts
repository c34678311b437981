import type { Logger } from "../../base/logger.js";
import type { SecretResolver } from "../../config/secret-reference.js";
import type { Tenant } from "../tenant.js";

export interface DiscoveryContext {
  /** Aborts when `discoverMs` is over. */
  readonly signal: AbortSignal;
  /** Fetches a secret by its reference, where the platform can reach it. */
  readonly resolveSecret: SecretResolver;
  /** For problems of one tenant that do not concern the others. */
  readonly logger: Logger;
}

/** Returns the current tenants: one of the sources of this package, or a function of your own. */
export interface TenantDiscovery {
  (context: DiscoveryContext): Promise<readonly Tenant[]> | readonly Tenant[];
  /** The tenants come from records that others may write, so `allow` must say which databases they may name. */
  readonly needsAllow?: boolean;
}

export const fromRecords = (
  discover: (context: DiscoveryContext) => Promise<readonly Tenant[]>,
): TenantDiscovery => Object.assign(discover, { needsAllow: true });
