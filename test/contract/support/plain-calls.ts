import { literal, type QueueNames } from "../../../src/sql/names.js";
import { unicodeLiteral } from "../../../src/sql/sqlserver/expressions.js";
import type { CallerTransaction, TestDatabase } from "../harness.js";

type Value = string | number | Date;
/** A message as the columns of the plain routines. */
export type PlainMessage = Readonly<Record<string, Value | null>>;

/** The call that a service in another language makes, with its values written out. */
export function plainCall(database: TestDatabase, names: QueueNames, message: PlainMessage): string {
  const { name } = database.db.dialect;
  const columns = Object.keys(message);
  const values = columns.map((column) => written(database, message[column]!));
  if (name === "sqlite")
    return `insert into ${names.object(names.kind === "inbox" ? "_Receive" : "_Enqueue")} (${columns.join(", ")}) values (${values.join(", ")})`;
  if (name === "postgres") {
    const given = columns.map((column, index) => `${column} => ${values[index]}`).join(", ");
    return `select ${names.object(names.kind === "inbox" ? "_receive" : "_enqueue")}(${given}) as result`;
  }
  const given = columns
    .filter((column) => column !== "id")
    .map((column) => `@${column} = ${written(database, message[column]!)}`);
  if (names.kind === "inbox") return `exec ${names.object("_Receive")} ${given.join(", ")}`;
  const id = message.id === undefined ? "null" : written(database, message.id);
  return `declare @id uniqueidentifier = ${id};
exec ${names.object("_Enqueue")} ${[...given, "@id = @id output"].join(", ")};
select @id as result;`;
}

function written({ db }: TestDatabase, value: Value | null): string {
  const { name, toTime } = db.dialect;
  if (value === null) return "null";
  if (value instanceof Date)
    return String(name === "sqlite" ? toTime(value) : literal(String(toTime(value))));
  if (typeof value === "number") return String(value);
  return name === "sqlserver" ? unicodeLiteral(value) : literal(value);
}

/** Makes the call on its own. Returns the id of an enqueued message, or the outcome of a received one. */
export async function callPlainly(
  database: TestDatabase,
  names: QueueNames,
  message: PlainMessage,
): Promise<string> {
  const [row] = await database.raw(plainCall(database, names, message));
  if (database.db.dialect.name !== "sqlite") return String(row?.result ?? row?.outcome).toLowerCase();
  const [stored] = await database.raw(resultOnSqlite(database, names, message));
  return String(stored?.result);
}

/** There an insert returns nothing: the view has what it did. */
function resultOnSqlite(database: TestDatabase, names: QueueNames, message: PlainMessage): string {
  const is = (column: string) => `${column} = ${written(database, message[column]!)}`;
  if (names.kind === "inbox")
    return `select outcome as result from ${names.object("_Receive")} where ${is("source")} and ${is("message_id")}`;
  const which = message.natural_key ? `where ${is("topic")} and ${is("natural_key")}` : "";
  return `select id as result from ${names.message} ${which} order by seq desc limit 1`;
}

export const callInside = (
  { run }: CallerTransaction,
  database: TestDatabase,
  names: QueueNames,
  message: PlainMessage,
): Promise<void> => run(plainCall(database, names, message));
