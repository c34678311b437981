import type { QueueMessage } from "./message.js";

/**
 * One crash says little: the platform ends processes too, and everything that a process held comes back with it. From the
 * second crash on, a message may be what kills its process, and it is claimed and handled alone.
 */
export const crashesBeforeAlone = 2;

export const mustRunAlone = ({ crashes }: Pick<QueueMessage, "crashes">): boolean =>
  crashes >= crashesBeforeAlone;
