import { maxNameLength } from "../../queue/arguments.js";
import type { QueueNames } from "../names.js";
import { plainColumns, refusals, times } from "../plain-routines.js";
import { binary, inLines, unicodeLiteral } from "./expressions.js";
import { type Procedure, procedure } from "./procedure.js";
import { type ParameterName, parametersOf } from "./procedure-calls.js";

/**
 * The procedure by which other languages put one message into the queue. It takes plain parameters only and hands them to the procedure
 * that TypeScript calls: whoever may execute it can add messages, and has none of the parameters by which that one rewrites a message,
 * takes many or believes a time. On SQL Server a procedure may execute what its owner owns, so a role needs no right to the other.
 */
export function plainProcedure(n: QueueNames, suffix: "Enqueue" | "Receive"): Procedure {
  const parameters = parametersOf(n, suffix);
  const given = parameters.map((one) => `@${one} = @${one}${one === "id" ? " output" : ""}`);
  return procedure(
    n,
    suffix,
    `${check(n)}\n\nexec ${n.object(`_${suffix}Messages`)}\n  ${inLines(given)};`,
    parameters,
    (one, declared) => withIdReturned(one, inFull(declared)),
  );
}

/** The id of a message is returned, too: it is another message's where that has the natural key. */
export const withIdReturned = (parameter: ParameterName, declared: string): string =>
  parameter === "id" ? `${declared} output` : declared;

/** A name is declared longer than it may be: the server would cut one that is too long, and two would become one. */
const inFull = (declared: string): string => declared.replace(`nvarchar(${maxNameLength})`, "nvarchar(4000)");

/** The error of a message that is refused. */
const refusedMessage = 51022;

/** Refuses what TypeScript's enqueue and receive refuse, and makes the id that a caller leaves out. */
const check = (
  n: QueueNames,
): string => `${n.kind === "inbox" ? "" : "set @id = coalesce(@id, newid());\nset @message_id = coalesce(@message_id, @id);\n"}if datalength(@correlation_id) = 0 set @correlation_id = null;${n.kind === "inbox" ? `\nset @hash = lower(@hash ${binary});` : ""}
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
