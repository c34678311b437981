import type { Database, SqlExecutor } from "../../../src/index.js";
import { statement } from "../../../src/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

/** Where a service keeps everything: a SQLite file, or a schema on a PostgreSQL server. */
export type Place = { readonly file: string } | { readonly url: string; readonly schema: string };

/** What was done once or more often for an order. */
export interface Entry {
  readonly what: string;
  readonly order: number;
  readonly correlation: string;
}

/** The database of a service with its business table. Nothing in the table is unique, so work done twice is seen. */
export interface Tables {
  readonly db: Database;
  readonly schema: { readonly schema?: string };
  create(): Promise<void>;
  /** Writes what was done, in the transaction that does it. */
  enter(tx: SqlExecutor, entry: Entry): Promise<void>;
  entries(): Promise<readonly Entry[]>;
  count(): Promise<number>;
  lastOrder(): Promise<number>;
}

export function openTables(place: Place): Tables {
  const db = "file" in place ? openSqlite(place) : openPostgres({ url: place.url });
  const table = "file" in place ? "done" : `${place.schema}.done`;
  const insert = statement(
    "insert entry",
    `insert into ${table} (what, order_no, correlation) values (:what, :order, :correlation)`,
  );
  const query = (name: string, text: string) => db.driver.query(statement(name, text), {});
  const numberOf = async (name: string, expression: string) =>
    Number((await query(name, `select ${expression} as n from ${table}`))[0]!.n);
  return {
    db,
    schema: "file" in place ? {} : { schema: place.schema },
    async create() {
      const columns = "what varchar(100) not null, order_no integer not null, correlation varchar(100)";
      await query("create table", `create table ${table} (${columns})`);
    },
    async enter(tx, { what, order, correlation }) {
      await tx.query(insert, { what, order, correlation });
    },
    async entries() {
      const rows = await query("read entries", `select what, order_no, correlation from ${table}`);
      return rows.map((row) => ({
        what: String(row.what),
        order: Number(row.order_no),
        correlation: String(row.correlation),
      }));
    },
    count: () => numberOf("count entries", "count(*)"),
    lastOrder: () => numberOf("read last order", "coalesce(max(order_no), 0)"),
  };
}
