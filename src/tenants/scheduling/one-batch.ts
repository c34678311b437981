import type { QueueMessage } from "../../queue/message.js";
import type { DispatchStore } from "../../queue/work-store.js";

export interface OneBatch<Message extends QueueMessage, Tx> {
  readonly store: DispatchStore<Message, Tx>;
  /** How long the claim has been, or was, without an answer; 0 when it was answered, or never made. */
  unansweredMs(): number;
}

/** A store that gives one batch and then says that it is empty: what a dispatcher does with it is one turn. */
export function oneBatch<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
): OneBatch<Message, Tx> {
  let askedAt: number | undefined;
  let isAnswered = false;
  return {
    unansweredMs: () => (askedAt === undefined || isAnswered ? 0 : performance.now() - askedAt),
    store: {
      ...store,
      async claim(options) {
        if (askedAt !== undefined) return [];
        askedAt = performance.now();
        const messages = await store.claim(options);
        isAnswered = true;
        return messages;
      },
    },
  };
}
