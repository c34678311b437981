/**
 * Where a message is, in the words of operators. The words are the same for both queues, and true while a pause holds. A message
 * that a pause holds is paused from the pause on, whether or not a claim has come by it. `seen`,
 * `archived` and `replaced` are of the inbox alone: the outbox keeps no such message.
 */
export const phases = [
  "waiting",
  "retrying",
  "running",
  "paused",
  "done",
  "dead",
  "archived",
  "replaced",
  "seen",
] as const;
export type Phase = (typeof phases)[number];

/** The phases that the outbox does not have. */
export const inboxPhases: readonly Phase[] = ["archived", "replaced", "seen"];
