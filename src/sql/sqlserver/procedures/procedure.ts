import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { addMs, asInt } from "../expressions.js";
import { type ParameterName, parameterType } from "../signatures.js";

export interface Procedure {
  readonly name: string;
  /** Its text, to follow the creation of an empty one where there is none. */
  readonly alter: string;
}

/** XACT_ABORT: an error, a timeout or a cancelled request leaves no half-written or open transaction behind. */
export function procedure(
  n: QueueNames,
  suffix: string,
  parameters: readonly ParameterName[],
  body: string,
): Procedure {
  const name = n.object(`_${suffix}`);
  const declared = parameters
    .map((parameter) => `  @${parameter} ${parameterType(n.kind, parameter)}`)
    .join(",\n");
  const clock = parameters.includes("now") ? "  set @now = coalesce(@now, sysutcdatetime());\n" : "";
  return {
    name,
    alter: `alter procedure ${name}${declared === "" ? "" : `\n${declared}`}
as
begin
  set nocount on;
  set xact_abort on;
${clock}
${indented(body)}
end`,
  };
}

export const indented = (body: string) => body.replace(/^(?=.)/gm, "  ");

/** One transaction for several writes: the caller's where there is one, which is then the caller's to end. */
export const atomically = (body: string) => `declare @outermost bit = ${asInt("@@trancount = 0")};
if @outermost = 1 begin transaction;

${body}

if @outermost = 1 commit transaction;`;

export const skipLocked = "updlock, readpast, rowlock, readcommittedlock";

/**
 * READPAST steps over other claimers' rows instead of waiting; UPDLOCK keeps the chosen ones;
 * READCOMMITTEDLOCK makes both work in a database with READ_COMMITTED_SNAPSHOT, where reads would
 * otherwise not lock. The index is named because a plan made while the queue was empty scans the table.
 */
export const pickFrom = (n: QueueNames, index: string) =>
  `${n.state} r with (index(${n.bare(index)}), ${skipLocked})`;

/** From the chosen rows to the rows themselves, whatever the statistics say: never by scanning the table. */
export const seekEach = "option (loop join, force order)";

export const seqs = "openjson(@items) with (seq bigint '$') i";

/**
 * The state table's name within a statement. What is written to has no alias, and is joined by commas:
 * SQL Server takes all forms alike, but Babelfish checks the condition on an old version of a row that
 * is joined by JOIN (and two claimers get it), and loses its way with an alias beside OUTPUT.
 */
export const stateOf = (n: QueueNames) => n.bare("State");

/** A row that @owner holds. */
export const owned = (s: string) => `${s}.owner = @owner and ${s}.status = ${status.held}`;

// A held row whose time has come was lost by its worker: that counts as an attempt, perhaps the last.
export const isLost = (s: string) => `${s}.locked_until is not null`;

export const isDying = (s: string) =>
  `(${s}.expires_at <= @now or (${isLost(s)} and ${s}.attempt + 1 >= @max_attempts))`;

export const prepareLease = `declare @lease_end datetime2(3) = ${addMs("@now", "@lease_ms")};`;
