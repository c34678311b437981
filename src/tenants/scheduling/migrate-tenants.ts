import { defined } from "../../base/defined.js";
import { severalAtOnce } from "../../base/several-at-once.js";
import { InvalidOperationError } from "../../errors.js";
import { type MigrateResult, migrate } from "../../sql/migrate.js";
import type { TenantStoreProvider } from "../connections/tenant-stores.js";

const atOnce = 4;
/** Tenants that the error names; of the others it says how many there are. */
const mostNamed = 20;

/** Migrates the tables of all tenants. A tenant that fails does not stop the others; the error at the end names it. */
export async function migrateTenants(
  tenants: Pick<TenantStoreProvider, "distinctStores" | "stores">,
): Promise<MigrateResult> {
  const ids = await tenants.distinctStores();
  const results = new Map<string, MigrateResult>();
  const failures = new Map<string, unknown>();
  await severalAtOnce(ids, atOnce, async (id) => {
    try {
      const { db, tables } = await tenants.stores(id);
      results.set(id, await migrate(db, defined(tables)));
    } catch (error) {
      failures.set(id, error);
    }
  });
  if (failures.size > 0) throw notMigrated(failures, ids.length);
  const collect = (of: (result: MigrateResult) => readonly string[]) =>
    ids.flatMap((id) => of(results.get(id)!).map((text) => `${id}: ${text}`));
  return { applied: collect((result) => result.applied), warnings: collect((result) => result.warnings) };
}

function notMigrated(failures: ReadonlyMap<string, unknown>, all: number): InvalidOperationError {
  const named = [...failures.keys()].slice(0, mostNamed).map((id) => JSON.stringify(id));
  const others = failures.size - named.length;
  const [first, ...more] = failures.values();
  return new InvalidOperationError(
    `${failures.size} of ${all} tenants could not be migrated: ${named.join(", ")}${others > 0 ? ` and ${others} more` : ""}. Solve what the cause says, and migrate again.`,
    { cause: more.length === 0 ? first : new AggregateError([first, ...more]) },
  );
}
