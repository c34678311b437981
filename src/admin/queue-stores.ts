import type { Inbox } from "../inbox/inbox.js";
import type { Outbox } from "../outbox/outbox.js";

/** The queues of one database. */
export interface AdminStores {
  readonly inbox: Inbox;
  readonly outbox: Outbox;
}

/** The queues of many tenants: what `createTenantStores` of `oncebox/tenants` returns, for example. */
export interface AdminTenants {
  /** The ids of all tenants. */
  list(): Promise<readonly string[]>;
  /** Undefined for an unknown tenant. */
  find(id: string): Promise<AdminStores | undefined>;
  /** Whether the dispatcher of this process leaves the tenant alone, where this process has one. */
  isQuarantined?(id: string): boolean;
}
