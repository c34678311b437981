import type { Logger } from "../../base/logger.js";
import type { SecretResolver } from "../../config/secret-reference.js";
import type { Tenant } from "../tenant.js";

export interface DiscoveryContext {
  /** Fires when the time for it is over. */
  readonly signal: AbortSignal;
  /** Fetches secrets that are only referred to, where the platform can reach them. */
  readonly resolveSecret: SecretResolver;
  /** For what is wrong with one tenant and not with the others. */
  readonly logger: Logger;
}

/** Says which tenants there are now: one of the sources of this package, or a function of your own. */
export type TenantDiscovery = (context: DiscoveryContext) => Promise<readonly Tenant[]> | readonly Tenant[];
