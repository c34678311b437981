import { type Slots, slots } from "./slots.js";

/**
 * Limits how many transactions are open at once. One connection is kept for statements outside of them: renewals of leases
 * and acknowledgements would otherwise wait for the handlers of these same messages.
 */
export const transactionSlots = (connections: number): Slots => slots(Math.max(1, connections - 1));
