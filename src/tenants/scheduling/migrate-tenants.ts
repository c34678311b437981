import { severalAtOnce } from "../../base/several-at-once.js";
import { InvalidOperationError } from "../../errors.js";
import { type MigrateResult, migrate } from "../../sql/migrate.js";
import type { TenantStoreProvider } from "../connections/tenant-stores.js";

const atOnce = 4;
const mostNamed = 20;

/** Each tenant's tables, when you deploy. One that fails keeps no other from it; who failed is said at the end. */
export async function migrateTenants(
  stores: Pick<TenantStoreProvider, "distinctStores" | "stores">,
): Promise<MigrateResult> {
  const ids = await stores.distinctStores();
  const applied = new Map<string, readonly string[]>();
  const failures = new Map<string, unknown>();
  await severalAtOnce(ids, atOnce, async (id) => {
    try {
      applied.set(id, await migrateOne(stores, id));
    } catch (error) {
      failures.set(id, error);
    }
  });
  if (failures.size > 0) throw notMigrated(failures, ids.length);
  return { applied: ids.flatMap((id) => applied.get(id)!.map((step) => `${id}: ${step}`)) };
}

async function migrateOne(stores: Pick<TenantStoreProvider, "stores">, id: string) {
  const { db, tables } = await stores.stores(id);
  const given = Object.entries(tables).filter(([, name]) => name !== undefined);
  return (await migrate(db, Object.fromEntries(given))).applied;
}

function notMigrated(failures: ReadonlyMap<string, unknown>, all: number): InvalidOperationError {
  const named = [...failures.keys()].slice(0, mostNamed).map((id) => JSON.stringify(id));
  const others = failures.size - named.length;
  const [first, ...more] = failures.values();
  return new InvalidOperationError(
    `${failures.size} of ${all} tenants could not be migrated: ${named.join(", ")}${others > 0 ? ` and ${others} more` : ""}. Migrating again goes on with them.`,
    { cause: more.length === 0 ? first : new AggregateError([first, ...more]) },
  );
}
