/** A string as SQL text, for what cannot be a parameter. SQL Server puts an N before it. */
export const literal = (value: string): string => `'${value.replaceAll("'", "''")}'`;
