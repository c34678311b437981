import { randomUUID } from "node:crypto";
import { emptyGuid, isGuid } from "../base/guid.js";
import { InvalidArgumentError } from "../errors.js";

/**
 * Identifies the holder of a lease. Every settlement is checked against it, so use a new token for
 * every run that claims: a token shared by two runs cannot tell their leases apart.
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
