/** The database's clock, unless a test passes a time. It is stable within a statement, so an index scan can use it. */
export const now = "coalesce(:now::timestamptz, statement_timestamp())";
