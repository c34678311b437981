import type { CallOptions } from "../queue/work-store.js";
import type { Database, Dialect } from "../sql/dialect.js";
import type { SqlStatement } from "../sql/driver.js";
import { isTrue } from "../sql/is-true.js";
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
  const statements = new Map<string, SqlStatement | undefined>();
  const statementFor = ({ db, tables }: DueStores): SqlStatement | undefined => {
    const key = JSON.stringify([db.dialect.name, tables]);
    if (!statements.has(key)) statements.set(key, makeStatement(db.dialect, tables));
    return statements.get(key);
  };
  return async (stores, { signal }) => {
    const question = statementFor(stores);
    if (question === undefined) return { inbox: true, outbox: true };
    const [row] = await stores.db.driver.query(question, {}, { signal });
    return { inbox: isTrue(row!.inbox), outbox: isTrue(row!.outbox) };
  };
}

function makeStatement(dialect: Dialect, { schema, inbox, outbox }: TenantStores["tables"]) {
  const names = (kind: QueueNames["kind"], table: string | undefined) =>
    dialect.names(kind, schema ?? dialect.defaults.schema, table ?? dialect.defaults[kind]);
  return dialect.due?.(names("inbox", inbox), names("outbox", outbox));
}
