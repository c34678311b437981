/** A string as SQL text, where a parameter is not possible. SQL Server puts an N before it. */
export const literal = (value: string): string => `'${value.replaceAll("'", "''")}'`;
