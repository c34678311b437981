/** The database's clock, unless a test passes a time. It is stable within a statement, so an index scan can use it. */
export const now = "coalesce(:now::timestamptz, statement_timestamp())";

export const ms = (expression: string) => `(${expression}) * interval '1 millisecond'`;

/** Milliseconds since 1970: a number is cheaper to write and to read than a timestamp's text. */
export const epochMs = (column: string) => `date_part('epoch', ${column}) * 1000`;
