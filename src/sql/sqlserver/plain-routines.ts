import { maxNameLength } from "../../queue/arguments.js";
import type { QueueNames } from "../names.js";
import { plainColumns, refusals, times } from "../plain-routines.js";
import { binary, unicodeLiteral } from "./expressions.js";
import { indented } from "./procedure.js";
import type { ParameterName } from "./procedure-calls.js";

/**
 * Enqueue and Receive take one message as plain parameters, for services in other languages too. All may be left out of a call but
 * those that are checked. A name is declared longer than it may be: the server would cut one that is too long, and two would become one.
 * An enqueue returns the message's id in @id.
 */
export const plainParameter = (parameter: ParameterName, declared: string): string =>
  `${declared.replace(`nvarchar(${maxNameLength})`, "nvarchar(4000)")}${parameter === "id" ? " output" : ""}`;

/** The error of a message that is refused. */
export const refusedMessage = 51022;

/** Refuses what TypeScript's enqueue and receive refuse, and makes the id that a caller leaves out. */
export const checkPlain = (n: QueueNames): string => `if @items is null
begin
${indented(`${n.kind === "inbox" ? "" : "set @id = coalesce(@id, newid());\nset @message_id = coalesce(@message_id, @id);\n"}if datalength(@correlation_id) = 0 set @correlation_id = null;${n.kind === "inbox" ? `\nset @hash = lower(@hash ${binary});` : ""}
declare @refusal nvarchar(200) = case
${conditions(n)
  .map(([condition, message]) => `  when ${condition} then ${unicodeLiteral(message)}`)
  .join("\n")}
end;
-- not every server that speaks T-SQL can read an escaped NUL
if charindex(N'\\u0000', @headers) = 0
begin
  if isjson(@headers) = 0 set @refusal = ${unicodeLiteral(refusals.headers)};
  else if not exists (select 1 from openjson(concat(N'[', @headers, N']')) h where h.type = 5)
    or exists (select 1 from openjson(@headers) h where h.type <> 1)
    set @refusal = ${unicodeLiteral(refusals.headers)};
end
if @refusal is not null
begin
  -- the caller's transaction stays as it is
  set xact_abort off;
  throw ${refusedMessage}, @refusal, 1;
end`)}
end`;

function conditions(n: QueueNames): readonly (readonly [condition: string, message: string])[] {
  // LEN ignores spaces at the end, and = takes a space and an empty text for the same; without a binary collation also half an emoji
  const isBad = (name: string) => `right(@${name}, 1) = N' ' ${binary} or len(@${name}) > ${maxNameLength}`;
  return [
    ...plainColumns.names[n.kind].map(
      (name) => [`@${name} is null or ${isBad(name)}`, refusals.name(name)] as const,
    ),
    ...[...plainColumns.keys[n.kind], "correlation_id"].map(
      (name) => [isBad(name), refusals.name(name)] as const,
    ),
    ["@payload is null", refusals.payload],
    ...times.map(
      (name) => [`@${name} not between '1970-01-01' and '9998-01-01'`, refusals.time(name)] as const,
    ),
    ...(n.kind === "inbox" ? [[isBadHash, refusals.hash] as const] : []),
  ];
}

const colon = "charindex(':', @hash)";
/** It is in lower case here. */
const isBadHash = [
  `substring(@hash, ${colon} + 1, datalength(@hash)) ${binary} like '%[^0-9a-f]%'`,
  `(datalength(@hash) - ${colon}) % 2 = 1`,
  `right(@hash, 1) = ':'`,
  `${colon} = 1`,
  `${colon} > 33`,
  `replace(replace(left(@hash, ${colon}), '_', ''), '-', '') ${binary} like '%[^0-9a-z:]%'`,
  `left(@hash, 1) in ('_', '-')`,
].join(" or ");
