import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import type { SqlExecutor } from "../../sql/driver.js";
import type { AnyDatabase } from "../../sql/native.js";

/** What Kysely's dialects take, by the kind of the transaction's database. On SQL Server Kysely needs another library's connection. */
export type KyselySettings<Kind extends AnyDatabase> = "any" extends Kind
  ? OnePool & OneConnection
  : Kind extends "postgres"
    ? OnePool
    : Kind extends "sqlite"
      ? OneConnection
      : never;

interface OnePool {
  /** For `PostgresDialect`: its one client is the transaction's. */
  readonly pool: {
    connect(): Promise<KyselyClient>;
    end(): Promise<void>;
  };
}

interface OneConnection {
  /** For `SqliteDialect`: the transaction's connection. */
  readonly database: {
    prepare(text: string): KyselyStatement;
    close(): void;
  };
}

interface KyselyClient {
  query<Row>(text: string, values: readonly unknown[]): Promise<KyselyResult<Row>>;
  query<Row>(cursor: KyselyCursor<Row>): KyselyCursor<Row>;
  release(): void;
}

interface KyselyResult<Row> {
  command: "UPDATE" | "DELETE" | "INSERT" | "SELECT" | "MERGE";
  rowCount: number;
  rows: Row[];
}

interface KyselyCursor<Row> {
  read(count: number): Promise<Row[]>;
  close(): Promise<void>;
}

interface KyselyStatement {
  readonly reader: boolean;
  all(values: readonly unknown[]): unknown[];
  run(values: readonly unknown[]): { changes: number | bigint; lastInsertRowid: number | bigint };
  iterate(values: readonly unknown[]): IterableIterator<unknown>;
}

/**
 * Kysely inside of a handler's transaction, on PostgreSQL or SQLite: the settings of a dialect that runs on `tx`.
 *
 * @example
 * const { Kysely, PostgresDialect } = await import("kysely");
 * const db = new Kysely<any>({ dialect: new PostgresDialect(toKysely(tx)) });
 * await db.insertInto("orders").values({ id: 7 }).execute();
 */
export function toKysely<Kind extends AnyDatabase>(tx: SqlExecutor<Kind>): KyselySettings<Kind> {
  const native = nativeOf(tx, "toKysely");
  return (native.kind === "postgres"
    ? onePool(native.client)
    : oneConnection(native.connection)) as unknown as KyselySettings<Kind>;
}

function onePool(client: PgClient): OnePool {
  const kept = pgClient(client);
  return { pool: { connect: async () => kept, end: async () => {} } };
}

const oneConnection = (connection: SqliteConnection): OneConnection => ({
  database: { prepare: (text) => kyselyStatement(connection, text), close() {} },
});

/** Runs a text for `drizzle-orm/sqlite-proxy`: rows are lists of values. */
export type DrizzleProxy = (
  text: string,
  values: readonly unknown[],
  method: "run" | "all" | "values" | "get",
) => Promise<{ rows: unknown[] }>;

/**
 * Drizzle inside of a handler's transaction on SQLite, by `drizzle-orm/sqlite-proxy`. On PostgreSQL it takes the client itself:
 * `drizzle(tx.native)`.
 *
 * @example
 * const { drizzle } = await import("drizzle-orm/sqlite-proxy");
 * await drizzle(toDrizzle(tx)).run("insert into orders (id) values (7)");
 */
export function toDrizzle(tx: SqlExecutor): DrizzleProxy {
  const native = nativeOf(tx, "toDrizzle");
  if (native.kind !== "sqlite")
    throw new InvalidArgumentError("toDrizzle is for SQLite. On PostgreSQL write drizzle(tx.native).");
  return async (text, values, method) => {
    refuseEnd(text);
    const statement = native.connection.prepare(text);
    if (method === "run") {
      statement.run(...values);
      return { rows: [] };
    }
    const rows = byPosition(statement).all(...values);
    // one row, and not a list of rows
    return { rows: method === "get" ? (rows[0] as unknown[]) : rows };
  };
}

/** Drizzle reads values by their position. A row as an object has only one of the columns of a join that share a name. */
function byPosition(statement: SqliteStatement): SqliteStatement {
  if (statement.setReturnArrays !== undefined) statement.setReturnArrays(true);
  else if (statement.raw !== undefined) statement.raw(true);
  else
    throw new InvalidOperationError(
      "toDrizzle cannot read rows with this Node's SQLite, which does not return them as arrays. Use Node 22.16 or later.",
    );
  return statement;
}

/** The part of pg's client that is used. */
interface PgClient {
  query(...args: readonly unknown[]): unknown;
}

/** The part of node:sqlite's connection that is used. */
interface SqliteConnection {
  prepare(text: string): SqliteStatement;
}

interface SqliteStatement {
  all(...values: readonly unknown[]): unknown[];
  run(...values: readonly unknown[]): { changes: number | bigint; lastInsertRowid: number | bigint };
  /** Node's own has it from 22.16. */
  setReturnArrays?(enabled: boolean): void;
  /** The same of better-sqlite3. */
  raw?(enabled: boolean): unknown;
}

type Native =
  | { readonly kind: "postgres"; readonly client: PgClient }
  | { readonly kind: "sqlite"; readonly connection: SqliteConnection };

function nativeOf(tx: SqlExecutor, what: string): Native {
  const native = Object(tx?.native) as Partial<PgClient & SqliteConnection>;
  if (typeof native.prepare === "function") return { kind: "sqlite", connection: native as SqliteConnection };
  if (typeof native.query === "function") return { kind: "postgres", client: native as PgClient };
  throw new InvalidArgumentError(
    `${what} takes the tx of a handler on PostgreSQL or SQLite. On SQL Server begin the transactions with your library: createDispatcher({ transaction }).`,
  );
}

/** Kysely gives its client back after each statement. This one stays with its transaction. */
const pgClient = (client: PgClient): KyselyClient => ({
  query(...args: readonly unknown[]): never {
    if (typeof args[0] === "string") refuseEnd(args[0]);
    return client.query(...args) as never;
  },
  release() {},
});

function kyselyStatement(connection: SqliteConnection, text: string): KyselyStatement {
  refuseEnd(text);
  const statement = connection.prepare(text);
  const all = (values: readonly unknown[]): unknown[] => statement.all(...values);
  return {
    reader: /^\s*(select|with|pragma|values)\b|\breturning\b/i.test(text),
    all,
    run: (values) => statement.run(...values),
    iterate: (values) => all(values)[Symbol.iterator](),
  };
}

/** The library's own `transaction` would end the handler's in the middle. */
function refuseEnd(text: string): void {
  if (/^\s*(begin|start\s+transaction|commit|end|rollback(?!\s+to))\b/i.test(text))
    throw new InvalidOperationError(
      "The handler's transaction is open already, and ends with its acknowledgement. Leave out the library's own transaction().",
    );
}
