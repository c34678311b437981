import { randomUUID } from "node:crypto";
import { emptyGuid, isGuid } from "../base/guid.js";
import { InvalidArgumentError } from "../errors.js";

/**
 * Identifies the holder of a lease. Every settlement is checked against it. Use a new token for every claim, as the
 * dispatcher does: the settlement of an expired lease then cannot end a newer lease of the same message.
 */
export type OwnerToken = string & { readonly __brand: "OwnerToken" };

export const newOwnerToken = (): OwnerToken => randomUUID() as OwnerToken;

/** Makes an owner token of a GUID. Refuses the empty GUID. */
export function ownerToken(value: string): OwnerToken {
  if (!isGuid(value) || value === emptyGuid) {
    throw new InvalidArgumentError(
      `The owner token must be a GUID other than the empty one. Make one with newOwnerToken().`,
    );
  }
  return value.toLowerCase() as OwnerToken;
}
