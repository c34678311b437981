import { literal } from "../literal.js";
/** Pieces of T-SQL that the procedures are made of. */

export const text = (value: string): string => `N${literal(value)}`;

/** Byte by byte, in any database: `=` must not depend on the collation that the database was created with. */
export const binary = "collate Latin1_General_100_BIN2";

const whole = (ms: string) => `cast(round(${ms}, 0) as bigint)`;

const dayMs = 24 * 60 * 60 * 1000;

/**
 * A time and a number of milliseconds. `dateadd` takes an int, which ends at 24.8 days of
 * milliseconds, so whole days and the rest are added one after the other. The expression
 * stands in the text twice: it must give the same value twice.
 */
export const addMs = (time: string, ms: string): string =>
  `dateadd(millisecond, cast(${whole(ms)} % ${dayMs} as int), dateadd(day, cast(${whole(ms)} / ${dayMs} as int), ${time}))`;

/**
 * What `backoffMs` needs beside the policy, worked out once a call: the attempt from which the
 * exponential is above the longest delay, and a random number. (`newid()` in the expression itself
 * would be drawn anew wherever SQL Server repeats it, or the same for all rows.)
 */
export const prepareBackoff = `declare @capped_from float = case
  when @base_ms >= @max_ms then 0
  when @factor > 1 then log(@max_ms / @base_ms) / log(@factor)
  else 1000000
end;
declare @random bigint = abs(cast(checksum(newid()) as bigint)) % 1000000;`;

/** The wait after the attempt that `attempts` counts: min(base · factor^n, max) + random(0, jitter). */
export function backoffMs(attempts: string, seq: string): string {
  const exponential = `case when ${attempts} < @capped_from then @base_ms * power(@factor, ${attempts}) else @max_ms end`;
  // steps of the golden ratio from the call's one draw: each row gets another
  return `(${exponential} + @jitter_ms * ((${seq} % 1000000 * 618034 + @random) % 1000000) / 1000000)`;
}

/** A condition as a value to add or to return. */
export const asInt = (condition: string): string => `case when ${condition} then 1 else 0 end`;
export const asBit = (condition: string): string => `cast(${asInt(condition)} as bit)`;

/** Hashes of different length are different; `<>` alone takes zeros at the end for padding. */
export const differs = (a: string, b: string): string =>
  `(${a} <> ${b} or datalength(${a}) <> datalength(${b}))`;
