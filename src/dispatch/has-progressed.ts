import type { DispatchResult } from "./dispatch-run.js";

/**
 * Whether a run settled a message. A run that settled none (its time is too short for the next message, or other
 * processes hold the messages) would be followed by one that settles none either, and so on for ever: its work is left to
 * the timer. Failed messages count as progress, because their attempts come to an end.
 */
export const hasProgressed = ({
  inbox,
  outbox,
}: Readonly<Record<"inbox" | "outbox", DispatchResult | null>>) =>
  [inbox, outbox].some((result) => result !== null && result.acked + result.abandoned + result.failed > 0);
