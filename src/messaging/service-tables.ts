import { omitUndefined } from "../base/defined.js";
import type { Database } from "../sql/dialect.js";
import { type MigrateOptions, type MigrateResult, migrate, runBatches } from "../sql/migrate.js";
import { defaults } from "./service-options.js";

export interface ServiceTables {
  readonly outboxDb: Database;
  readonly inboxDb: Database;
  readonly schema?: string | undefined;
  /** As the service's own option. */
  readonly table?: string | undefined;
}

/** Creates or updates the tables of a service, and the view on what it has sent. */
export async function createServiceTables(tables: ServiceTables): Promise<MigrateResult> {
  const { outboxDb, inboxDb } = tables;
  const options = serviceTableOptions(tables);
  const results =
    outboxDb === inboxDb
      ? [await migrate(outboxDb, options)]
      : [
          await migrate(outboxDb, { ...options, inbox: false }),
          await migrate(inboxDb, { ...options, outbox: false }),
        ];
  const { schema = outboxDb.dialect.defaults.schema } = tables;
  await outboxDb.exclusively(schema, (tx) => runBatches(tx, sentView(outboxDb, tables)));
  return {
    applied: results.flatMap(({ applied }) => applied),
    warnings: results.flatMap(({ warnings }) => warnings),
  };
}

/** The names of a service's tables, as a migration takes them. */
export const serviceTableOptions = ({ schema, table = defaults.table }: Partial<ServiceTables>) =>
  ({
    ...omitUndefined({ schema }),
    outbox: `${table}_outbox`,
    inbox: `${table}_inbox`,
  }) satisfies MigrateOptions;

/** The statements that create the view. */
export function sentView({ dialect }: Pick<Database, "dialect">, tables: Partial<ServiceTables>) {
  const { outbox } = serviceTableOptions(tables);
  return dialect.sentView(dialect.names("outbox", tables.schema ?? dialect.defaults.schema, outbox));
}
