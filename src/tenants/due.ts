import type { CallOptions } from "../queue/work-store.js";
import type { Database, Dialect } from "../sql/dialect.js";
import type { SqlRow, SqlStatement } from "../sql/driver.js";
import type { QueueNames } from "../sql/names.js";
import type { TenantStores } from "./tenant-stores.js";

export interface Due {
  readonly inbox: boolean;
  readonly outbox: boolean;
}

/** Where they are. */
export interface DueStores extends Pick<TenantStores, "tables"> {
  readonly db: Pick<Database, "dialect" | "driver">;
}

export type DueQuestion = (stores: DueStores, call: CallOptions) => Promise<Due>;

/**
 * Asks both queues in one round trip, which is all that a tenant with nothing to do costs. A database whose dialect
 * cannot is claimed from instead.
 */
export function dueQuestion(): DueQuestion {
  const byTables = new Map<string, SqlStatement | undefined>();
  const byStores = new WeakMap<DueStores, SqlStatement | undefined>();
  const statementFor = (stores: DueStores): SqlStatement | undefined => {
    const { db, tables } = stores;
    const key = JSON.stringify([db.dialect.name, tables]);
    if (!byTables.has(key)) byTables.set(key, makeStatement(db.dialect, tables));
    byStores.set(stores, byTables.get(key));
    return byTables.get(key);
  };
  return async (stores, { signal }) => {
    const question = byStores.get(stores) ?? statementFor(stores);
    if (question === undefined) return { inbox: true, outbox: true };
    const rows = await stores.db.driver.query(question, noParams, { signal });
    return rows.length === 0 ? nothing : { inbox: has(rows, "inbox"), outbox: has(rows, "outbox") };
  };
}

const noParams = {};
const nothing: Due = { inbox: false, outbox: false };
const has = (rows: readonly SqlRow[], queue: keyof Due) => rows.some((row) => row.queue === queue);

function makeStatement(dialect: Dialect, { schema, inbox, outbox }: TenantStores["tables"]) {
  const names = (kind: QueueNames["kind"], table: string | undefined) =>
    dialect.names(kind, schema ?? dialect.defaults.schema, table ?? dialect.defaults[kind]);
  return dialect.due?.(names("inbox", inbox), names("outbox", outbox));
}
