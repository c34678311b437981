import { memoisePromise } from "../../base/memoise-promise.js";
import type { ConnectionBudget } from "./connection-budget.js";
import { type OnDemandDatabase, type OnDemandOptions, onDemandDatabase } from "./on-demand-database.js";
import { statementCache } from "./statement-cache.js";

/** One pool for each database URL, however many tenants have it. */
export interface DatabasePools {
  get(url: string): Promise<OnDemandDatabase>;
  /** Closes the pools of all other URLs after their last use. */
  keepOnly(urls: ReadonlySet<string>): Promise<void>;
}

export function databasePools(budget: ConnectionBudget, open: OnDemandOptions["open"]): DatabasePools {
  const cacheStatements = statementCache();
  const databases = new Map<string, () => Promise<OnDemandDatabase>>();
  return {
    get(url) {
      const opened =
        databases.get(url) ??
        memoisePromise(async () => cacheStatements(await onDemandDatabase({ url, budget, open })));
      databases.set(url, opened);
      return opened();
    },
    async keepOnly(urls) {
      const others = [...databases].filter(([url]) => !urls.has(url));
      for (const [url] of others) databases.delete(url);
      // A database that cannot be opened has nothing to close.
      await Promise.allSettled(others.map(async ([, opened]) => (await opened()).close()));
    },
  };
}
