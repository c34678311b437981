import { InvalidOperationError } from "../errors.js";

/**
 * A row number of the database as a JavaScript number. One beyond 2^53 - 1 is refused: it would be rounded to the number
 * of a neighbour, and a settlement would end the lease of the wrong message.
 */
export function rowNumber(value: unknown): number {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  throw new InvalidOperationError(
    `The row number ${String(value)} is not a whole number up to 2^53 - 1, the largest that JavaScript holds exactly. Restart the table's numbers from a smaller one.`,
  );
}
