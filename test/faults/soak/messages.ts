import type { IncomingMessage } from "../../../src/index.js";

/** `quick` returns no promise, `long` outlasts its lease, `poison` ends its process. */
export type SoakTopic = "quick" | "steady" | "long" | "transactional" | "poison";

/** What a message tells its handler. */
export interface SoakWork {
  readonly ms: number;
  /** Its first attempt fails. */
  readonly fails: boolean;
  /** It goes on when its signal fires. */
  readonly deaf: boolean;
}

export const poisonExitCode = 86;

const keys = 24;
const poison: ReadonlySet<number> = new Set([30, 61]); // one without a partition key, one with

export const keyOf = (index: number): string | null => (index % 2 === 0 ? null : String(index % (2 * keys)));

export const topicOf = (index: number): SoakTopic => {
  if (poison.has(index)) return "poison";
  if (index % 50 === 7) return "long";
  return index % 5 === 0 ? "transactional" : index % 3 === 0 ? "quick" : "steady";
};

/** Every second message from number `from` on: with an even number they have no partition key, with an odd one they have. */
export function soakMessages(from: number, count: number, leaseMs: number): readonly IncomingMessage[] {
  return Array.from({ length: count }, (_, i) => {
    const index = from + 2 * i;
    const topic = topicOf(index);
    const work: SoakWork = {
      ms: topic === "long" ? leaseMs * 1.4 : 5 + Math.random() * 40,
      fails: index % 11 === 0,
      deaf: index % 4 < 2,
    };
    return {
      source: "soak",
      messageId: String(index),
      topic,
      payload: JSON.stringify(work),
      partitionKey: keyOf(index),
    };
  });
}
