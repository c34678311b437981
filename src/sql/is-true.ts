/** A truth value of a row: SQLite returns 1 and 0. */
export const isTrue = (value: unknown): boolean => value === true || value === 1;
