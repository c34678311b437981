import { inLines } from "../in-lines.js";
import { columnList, type JsonColumns, selectFromJson } from "../json-columns.js";
import { indented } from "./procedure.js";

/** Declares @messages and fills it: from @items, or with the one message that the parameters are, which spares the JSON. */
export const messagesTable = (columns: JsonColumns) => `declare @messages table (
  ${inLines(["position int not null primary key", ...Object.entries(columns).map(([column, type]) => `${column} ${type} null`)])}
);

if @items is null
  insert into @messages (position, ${columnList(columns)})
  values (0, ${columnList(columns, "@")});
else
  insert into @messages (position, ${columnList(columns)})
${indented(selectFromJson(columns))};`;
