import { knownByCode } from "../errors.js";

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
