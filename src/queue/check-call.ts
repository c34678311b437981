import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "./arguments.js";

/** The options of a call that takes none of its own. */
export const plainCall: readonly string[] = ["signal"];
export const callInTransaction: readonly string[] = ["tx", "signal"];

/**
 * Refuses mistakes that would lose a transaction silently: an option that the call does not know (`txn`), and a `tx` that
 * is given and undefined.
 */
export function checkCall(call: object, known: readonly string[], what: string): void {
  refuseUnknown(call, known, what);
  if ("tx" in call && call.tx === undefined) {
    throw new InvalidArgumentError(
      `${what}: tx is given and undefined, so this would not be in your transaction. Leave tx out to run without one. A handler has a tx with transactional: true.`,
    );
  }
}
