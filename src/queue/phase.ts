/**
 * Where a message is, in the words of operators. The words are the same for both queues, and true while a pause holds. A message
 * that a pause holds is paused from the pause on, whether or not a claim has come by it. `seen` is of the inbox alone.
 */
export const phases = ["waiting", "retrying", "running", "paused", "done", "dead", "seen"] as const;
export type Phase = (typeof phases)[number];
