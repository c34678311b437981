/** Pieces of T-SQL that the procedures are made of. */

export const text = (value: string): string => `N'${value.replaceAll("'", "''")}'`;

/** Byte by byte, in any database: `=` must not depend on the collation that the database was created with. */
export const binary = "collate Latin1_General_100_BIN2";

const whole = (ms: string) => `cast(round(${ms}, 0) as bigint)`;

/**
 * A time and a number of milliseconds. `dateadd` takes an int, which ends at 24.8 days of
 * milliseconds, so whole seconds and the rest are added one after the other. The expression
 * stands in the text twice: it must give the same value twice.
 */
export const addMs = (time: string, ms: string): string =>
  `dateadd(millisecond, cast(${whole(ms)} % 1000 as int), dateadd(second, cast(${whole(ms)} / 1000 as int), ${time}))`;

/** One draw a call, for `backoffMs`. */
export const drawRandom = "declare @random float = rand(checksum(newid()));";

/**
 * Between 0 and 1, another for each row: steps of the golden ratio from the call's one draw.
 * `newid()` in the expression itself would be drawn anew wherever SQL Server repeats it.
 */
function random(seq: string): string {
  const steps = `(@random + (${seq} % 1000000) * 0.6180339887498949e0)`;
  return `(${steps} - floor(${steps}))`;
}

/** The wait after the attempt that `attempts` counts: min(base · factor^n, max) + random(0, jitter). */
export function backoffMs(attempts: string, seq: string): string {
  const exponent = `case when ${attempts} < 64 then ${attempts} else 64 end`;
  const exponential = `@base_ms * power(@factor, ${exponent})`;
  return `(case when ${exponential} < @max_ms then ${exponential} else @max_ms end + @jitter_ms * ${random(seq)})`;
}

/** A condition as a value to add or to return. */
export const asInt = (condition: string): string => `case when ${condition} then 1 else 0 end`;
export const asBit = (condition: string): string => `cast(${asInt(condition)} as bit)`;

/** Hashes of different length are different; `<>` alone takes zeros at the end for padding. */
export const differs = (a: string, b: string): string =>
  `(${a} <> ${b} or datalength(${a}) <> datalength(${b}))`;
