import type { QueueNames } from "../../names.js";
import { columnList, type JsonColumns } from "../json-functions.js";

/** Declares @messages and fills it: from @items, or with the one message that the parameters are, which spares the JSON. */
export const messagesTable = (n: QueueNames, columns: JsonColumns) => `declare @messages table (
  position int not null primary key,
  ${Object.entries(columns)
    .map(([column, type]) => `${column} ${type} null`)
    .join(",\n  ")}
);

if @items is null
  insert into @messages (position, ${columnList(columns)})
  values (0, ${columnList(columns, "@")});
else
  insert into @messages (position, ${columnList(columns)})
  select i.position, ${columnList(columns, "i.")}
  from ${n.object("_MessagesFromJson")}(@items) i;`;
