import { binary } from "./expressions.js";
import { inLines } from "./in-lines.js";

/**
 * Procedures take several messages as one JSON array: the properties of its objects, with the types of the columns. Binary
 * values come as hexadecimal.
 */
export type JsonColumns = Readonly<Record<string, string>>;

const name = `nvarchar(255) ${binary}`;

const contentColumns: JsonColumns = {
  topic: name,
  payload: "nvarchar(max)",
  correlation_id: "nvarchar(255)",
  headers: "nvarchar(max)",
  due_at: "datetime2(3)",
  expires_at: "datetime2(3)",
  partition_key: name,
};
/** `error` is of a message that is dead at once. */
export const inboxColumns: JsonColumns = {
  source: name,
  message_id: name,
  ...contentColumns,
  hash: "varbinary(max)",
  error: "nvarchar(max)",
  error_group: `varchar(16) ${binary}`,
};
export const outboxColumns: JsonColumns = {
  id: "uniqueidentifier",
  message_id: "uniqueidentifier",
  ...contentColumns,
  natural_key: name,
};

export const columnList = (columns: JsonColumns, alias = ""): string =>
  Object.keys(columns)
    .map((column) => `${alias}${column}`)
    .join(", ");

const isBinary = (type: string) => type.startsWith("varbinary");
const withoutCollation = (type: string) => type.replace(` ${binary}`, "");

/** The objects of @items as a query, each with its position, for an INSERT of the columns into a table that has their collations. */
export function selectFromJson(columns: JsonColumns): string {
  const entries = Object.entries(columns);
  const read = entries.map(
    ([column, type]) => `${column} ${isBinary(type) ? "nvarchar(max)" : withoutCollation(type)}`,
  );
  const selected = entries.map(([column, type]) =>
    isBinary(type) ? `convert(${type}, i.${column}, 2)` : `i.${column}`,
  );
  return `select ${inLines(["cast(a.[key] as int)", ...selected])}
from openjson(@items) a
cross apply openjson(a.value) with (
  ${inLines(read)}
) i`;
}
