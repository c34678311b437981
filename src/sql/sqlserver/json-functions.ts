import type { QueueNames } from "../names.js";
import { binary, unicodeLiteral } from "./expressions.js";

/** A function that reads the objects of a JSON array as rows, each with its position. The procedures take sets through it. */
export interface JsonFunction {
  readonly name: string;
  /** Batches that drop and create it. It has no grants of its own, so none are lost. */
  readonly batches: readonly string[];
}

/** The objects' properties, with the types of the columns. Binary values come as hexadecimal. */
export type JsonColumns = Readonly<Record<string, string>>;

const name = `nvarchar(255) ${binary}`;

const jsonKeyColumns: JsonColumns = { source: name, message_id: name };

const abandonedColumns: JsonColumns = {
  seq: "bigint",
  delay_ms: "float",
  error: "nvarchar(max)",
  error_group: `varchar(16) ${binary}`,
  attempts: "int",
};

const contentColumns: JsonColumns = {
  topic: name,
  payload: "nvarchar(max)",
  correlation_id: "nvarchar(255)",
  headers: "nvarchar(max)",
  due_at: "datetime2(3)",
  expires_at: "datetime2(3)",
};
export const inboxColumns: JsonColumns = { ...jsonKeyColumns, ...contentColumns, hash: "varbinary(max)" };
export const outboxColumns: JsonColumns = {
  id: "uniqueidentifier",
  message_id: "uniqueidentifier",
  ...contentColumns,
};

/** For batches in which some messages have a partition key. */
const partitionKey: JsonColumns = { partition_key: name };
export const keyedInboxColumns: JsonColumns = { ...inboxColumns, ...partitionKey };
export const keyedOutboxColumns: JsonColumns = { ...outboxColumns, ...partitionKey };

export const columnList = (columns: JsonColumns, alias = ""): string =>
  Object.keys(columns)
    .map((column) => `${alias}${column}`)
    .join(", ");

const isBinary = (type: string) => type.startsWith("varbinary");
const withoutCollation = (type: string) => type.replace(` ${binary}`, "");

function onSqlServer(columns: JsonColumns): string {
  const read = Object.entries(columns).map(
    ([column, type]) => `${column} ${isBinary(type) ? "nvarchar(max)" : withoutCollation(type)}`,
  );
  const selected = Object.entries(columns).map(([column, type]) => {
    if (isBinary(type)) return `convert(${type}, i.${column}, 2) as ${column}`;
    return type.endsWith(binary) ? `i.${column} ${binary} as ${column}` : `i.${column} as ${column}`;
  });
  return `select cast(a.[key] as int) as position,
  ${selected.join(",\n  ")}
from openjson(@items) a
cross apply openjson(a.value) with (
  ${read.join(",\n  ")}
) i`;
}

/**
 * Babelfish's openjson cuts texts at 4,000 characters and does not unescape them, and its convert cannot read hexadecimal.
 * PostgreSQL's own functions, which are callable there, can.
 */
function onBabelfish(columns: JsonColumns): string {
  const selected = Object.entries(columns).map(([column, type]) => {
    const value = `json_extract_path_text(cast(i.value as json), '${column}')`;
    const decoded = isBinary(type) ? `decode(${value}, 'hex')` : value;
    const collation = type.endsWith(binary) ? ` ${binary}` : "";
    return `cast(${decoded} as ${withoutCollation(type)})${collation} as ${column}`;
  });
  return `select cast(i.[key] as int) as position,
  ${selected.join(",\n  ")}
from openjson(@items) i`;
}

export function jsonFunction(n: QueueNames, suffix: string, columns: JsonColumns): JsonFunction {
  const functionName = n.object(suffix);
  const create = (body: string) => `create function ${functionName} (@items nvarchar(max))
returns table
as
return ${body}`;
  return {
    name: functionName,
    batches: [
      `drop function if exists ${functionName}`,
      // Executed as texts, because each server refuses the other's functions when it parses the batch.
      `if serverproperty('BabelfishVersion') is null
  exec(${unicodeLiteral(create(onSqlServer(columns)))})
else
  exec(${unicodeLiteral(create(onBabelfish(columns)))})`,
    ],
  };
}

export const jsonFunctions = (n: QueueNames): readonly JsonFunction[] => [
  jsonFunction(n, "_AbandonedFromJson", abandonedColumns),
  ...(n.kind === "inbox" ? [jsonFunction(n, "_KeysFromJson", jsonKeyColumns)] : []),
  jsonFunction(n, "_MessagesFromJson", n.kind === "inbox" ? inboxColumns : outboxColumns),
  jsonFunction(n, "_KeyedMessagesFromJson", n.kind === "inbox" ? keyedInboxColumns : keyedOutboxColumns),
];
