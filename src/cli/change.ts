import type { BulkAction } from "../queue/dead-letters.js";

/** What is done to dead messages. */
export type Change = BulkAction;

export const pastOf = { replay: "replayed", discard: "discarded", archive: "archived" } as const;
export const sentenceOf = { replay: "Replayed", discard: "Discarded", archive: "Archived" } as const;
/** While it is being done. */
export const progressOf = { replay: "replaying", discard: "discarding", archive: "archiving" } as const;
