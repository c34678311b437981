import type { QueueNames } from "../names.js";
import { binary } from "./expressions.js";
import { inLines } from "./in-lines.js";

/** A function that reads the objects of a JSON array as rows, each with its position. The procedures take sets through it. */
export interface JsonFunction {
  readonly name: string;
  /** The batch that creates or replaces it. */
  readonly text: string;
}

/** The objects' properties, with the types of the columns. Binary values come as hexadecimal. */
export type JsonColumns = Readonly<Record<string, string>>;

const name = `nvarchar(255) ${binary}`;

const jsonKeyColumns: JsonColumns = { source: name, message_id: name };

const errorColumns: JsonColumns = { error: "nvarchar(max)", error_group: `varchar(16) ${binary}` };

const abandonedColumns: JsonColumns = {
  seq: "bigint",
  delay_ms: "float",
  ...errorColumns,
  attempts: "int",
};

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
  ...jsonKeyColumns,
  ...contentColumns,
  hash: "varbinary(max)",
  ...errorColumns,
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

function rowsOf(columns: JsonColumns): string {
  const read = Object.entries(columns).map(
    ([column, type]) => `${column} ${isBinary(type) ? "nvarchar(max)" : withoutCollation(type)}`,
  );
  const selected = Object.entries(columns).map(([column, type]) => {
    if (isBinary(type)) return `convert(${type}, i.${column}, 2) as ${column}`;
    return type.endsWith(binary) ? `i.${column} ${binary} as ${column}` : `i.${column} as ${column}`;
  });
  return `select ${inLines(["cast(a.[key] as int) as position", ...selected])}
from openjson(@items) a
cross apply openjson(a.value) with (
  ${inLines(read)}
) i`;
}

export function jsonFunction(n: QueueNames, suffix: string, columns: JsonColumns): JsonFunction {
  const functionName = n.object(suffix);
  return {
    name: functionName,
    text: `create or alter function ${functionName} (@items nvarchar(max))
returns table as return
${rowsOf(columns)}`,
  };
}

export const jsonFunctions = (n: QueueNames): readonly JsonFunction[] => [
  jsonFunction(n, "_AbandonedFromJson", abandonedColumns),
  ...(n.kind === "inbox" ? [jsonFunction(n, "_KeysFromJson", jsonKeyColumns)] : []),
  jsonFunction(n, "_MessagesFromJson", n.kind === "inbox" ? inboxColumns : outboxColumns),
];
