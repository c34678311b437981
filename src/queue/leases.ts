import { randomUUID } from "node:crypto";
import { emptyGuid, isGuid } from "../base/uuid.js";
import { InvalidArgumentError, knownByCode } from "../errors.js";
import type { QueueMessage } from "./message.js";

/**
 * Identifies the holder of a lease. Every settlement is checked against it. Use a new token for every claim, as the
 * dispatcher does: the settlement of an expired lease then cannot end a newer lease of the same message.
 */
export type OwnerToken = string & { readonly __brand: "OwnerToken" };

/** A new token: whoever claims messages settles them by it. */
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

/** The lease expired, so another worker may hold the message. This worker's result is rolled back or ignored. */
export class LeaseLostError extends Error {
  static readonly code = "ONCEBOX_LEASE_LOST";
  static {
    knownByCode(LeaseLostError);
  }

  readonly code = LeaseLostError.code;
  override readonly name = "LeaseLostError";

  constructor() {
    super("The lease on this message expired; another worker may be handling it.");
  }
}

/**
 * One crash says little: the platform ends processes too, and everything that a process held comes back with it. From the
 * second crash on, a message may be what kills its process, and it is claimed and handled by itself.
 */
export const crashesBeforeAlone = 2;

export const isSuspect = ({ crashes }: Pick<QueueMessage, "crashes">): boolean =>
  crashes >= crashesBeforeAlone;
