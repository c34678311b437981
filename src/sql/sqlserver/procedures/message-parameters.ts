import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { type JsonColumns, list as listed } from "../json-functions.js";

/** What a message brings beside its key. */
export const contents = ["topic", "payload", "hash", "correlation_id", "headers", "due_at", "expires_at"];

/** With the columns' collation, not the database's: two that differ cannot be compared. */
export const parametersAsRow = (columns: JsonColumns) => `(
  select 0 as position, ${Object.entries(columns)
    .map(([column, type]) => `@${column}${type.endsWith(binary) ? ` ${binary}` : ""} as ${column}`)
    .join(", ")}
) i`;

export const jsonTable = (
  n: QueueNames,
  columns: JsonColumns,
  read = "_Incoming",
) => `declare @incoming table (
  position int not null primary key,
  ${Object.entries(columns)
    .map(([column, type]) => `${column} ${type} null`)
    .join(",\n  ")}
);

insert into @incoming (position, ${listed(columns)})
select i.position, ${listed(columns, "i.")}
from ${n.object(read)}(@items) i;`;

/** With a key it is behind others until it has got in line. */
export const waiting = `case when i.partition_key is null then ${status.ready} else ${status.blocked} end`;

export const keyed = "case when i.partition_key is not null then 1 end";
