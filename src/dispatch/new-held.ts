import type { HeldMessage, Lease } from "./run-state.js";

/** A message that was just claimed. */
export const newHeld = <Message, Tx>(
  message: Message,
  topic: HeldMessage<Message, Tx>["topic"],
  lease: Lease,
): HeldMessage<Message, Tx> => ({
  message,
  topic,
  lease,
  startedAt: 0,
  timeoutAt: Number.POSITIVE_INFINITY,
  warnAt: Number.POSITIVE_INFINITY,
  abort: undefined,
  stopReason: undefined,
  transaction: undefined,
  isCalled: false,
  isAcking: false,
  isLost: false,
  isEnded: false,
  decision: undefined,
  later: undefined,
});
