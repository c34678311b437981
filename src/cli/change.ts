/** What is done to dead messages. */
export type Change = "replay" | "discard";

export const pastOf = { replay: "replayed", discard: "discarded" } as const;
export const sentenceOf = { replay: "Replayed", discard: "Discarded" } as const;
