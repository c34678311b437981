import { omitUndefined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";
import type { Database } from "../dialect.js";
import { asTransaction, endedError, type SqlExecutor, statement } from "../driver.js";
import { isOutside, type PgQueryable, pgQuery } from "./connection.js";
import { postgresDialect } from "./dialect.js";
import { clientSettings, disableNotify, enableNotify, wakeUpOnNotify } from "./notify.js";
import { connectPostgres, isPrepared, type PostgresOptions } from "./open.js";
import { checkPooler } from "./pooler.js";

export { disableNotify, enableNotify, type WakeUpOptions, wakeUpOnNotify } from "./notify.js";
export type { PostgresOptions } from "./open.js";

/**
 * A PostgreSQL database; the driver is loaded and the pool made at first use.
 *
 * @example
 * const db = openPostgres({ url: "postgres://app@db.example/orders" });
 */
export function openPostgres(options: PostgresOptions): Database<"postgres"> {
  const opened = connectPostgres(options);
  const db: Database<"postgres"> = {
    ...opened,
    dialect: postgresDialect,
    exclusively: (schema, work) =>
      opened.driver.transaction(async (tx) => {
        await tx.query(lock, { key: `oncebox:${schema}` });
        return work(tx);
      }),
    notifications: {
      enable: (queue) => enableNotify(db, queue),
      disable: (queue) => disableNotify(db, queue),
      wakeUp: (queue, logger) => wakeUpOnNotify({ ...queue, logger, ...connectionOf(options) }),
    },
    wrongConnection: () => checkPooler(clientSettings(connectionOf(options)), isPrepared(options)),
  };
  return db;
}

/** pg hides a pool's password from copies. */
const connectionOf = ({ url, config, pool }: PostgresOptions) =>
  pool === undefined
    ? omitUndefined({ url, config })
    : { config: { ...pool.options, ...omitUndefined({ password: pool.options.password }) } };

const lock = statement("migration lock", "select pg_advisory_xact_lock(hashtextextended(:key::text, 0))");

/**
 * The open transaction of the caller's own `pg` client.
 *
 * @example
 * await client.query("begin");
 * await outbox.enqueue({ topic: "order.created", payload }, { tx: fromPg(client) });
 * await client.query("commit");
 */
export function fromPg(client: PgQueryable): SqlExecutor<"postgres"> {
  if (typeof client?.query !== "function" || "totalCount" in client) {
    throw new InvalidArgumentError(
      "fromPg takes a pg Client or PoolClient with an open transaction, not a Pool.",
    );
  }
  return asTransaction({
    native: client,
    async query(statement, params) {
      if (isOutside(client)) throw endedError();
      return pgQuery(client, statement, params);
    },
  });
}
