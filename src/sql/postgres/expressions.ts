/** The database's clock, unless a test passes a time. Stable within a statement, so an index can use it. */
export const now = "coalesce(:now::timestamptz, statement_timestamp())";
