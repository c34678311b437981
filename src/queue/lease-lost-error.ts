/** Another worker may have the message by now: what this one did for it is rolled back or ignored. */
export class LeaseLostError extends Error {
  readonly code = "ONCEBOX_LEASE_LOST";
  override readonly name = "LeaseLostError";

  constructor() {
    super("The lease on this message was lost to its expiry; another worker may be handling it.");
  }
}
