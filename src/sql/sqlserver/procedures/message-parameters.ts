import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { columnList, type JsonColumns } from "../json-functions.js";

/** The columns that a delivery brings, beside the key. */
export const contents = ["topic", "payload", "hash", "correlation_id", "headers", "due_at", "expires_at"];

/** With the collation of the columns, not of the database: SQL Server cannot compare two different ones. */
export const parametersAsRow = (columns: JsonColumns) => `(
  select 0 as position, ${Object.entries(columns)
    .map(([column, type]) => `@${column}${type.endsWith(binary) ? ` ${binary}` : ""} as ${column}`)
    .join(", ")}
) i`;

/** Declares @messages and fills it from @items. `jsonFunction` is the function that reads it. */
export const messagesTable = (
  n: QueueNames,
  columns: JsonColumns,
  jsonFunction: string,
) => `declare @messages table (
  position int not null primary key,
  ${Object.entries(columns)
    .map(([column, type]) => `${column} ${type} null`)
    .join(",\n  ")}
);

insert into @messages (position, ${columnList(columns)})
select i.position, ${columnList(columns, "i.")}
from ${n.object(jsonFunction)}(@items) i;`;

/** A message with a partition key is blocked until it is the head of its partition queue. */
export const firstStatus = `case when i.partition_key is null then ${status.ready} else ${status.blocked} end`;

export const keyed = "case when i.partition_key is not null then 1 end";
