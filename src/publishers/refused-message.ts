import { PermanentFailure } from "../dispatch/settlement.js";

/** The destination works, and refuses this message. It is retried, because the destination may learn to take it. */
export class RefusedMessage extends Error {}

/** Whether the message is at fault. Then the failure does not count against its destination. */
export const isMessageFault = (error: unknown): boolean =>
  error instanceof PermanentFailure || error instanceof RefusedMessage;
