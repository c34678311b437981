import type { QueueMessage } from "../../queue/message.js";
import type { DispatchStore } from "../../queue/work-store.js";

export interface SingleBatchStore<Message extends QueueMessage, Tx> {
  readonly store: DispatchStore<Message, Tx>;
  /** For how long the claim has been pending; 0 when it has returned, or was never made. */
  pendingClaimMs(): number;
}

/** A store that returns one batch and is empty after it. A dispatcher's run over it is a tenant's turn. */
export function singleBatchStore<Message extends QueueMessage, Tx>(
  store: DispatchStore<Message, Tx>,
): SingleBatchStore<Message, Tx> {
  let claimedAt: number | undefined;
  let hasReturned = false;
  return {
    pendingClaimMs: () => (claimedAt === undefined || hasReturned ? 0 : performance.now() - claimedAt),
    store: {
      ...store,
      async claim(options) {
        if (claimedAt !== undefined) return [];
        claimedAt = performance.now();
        const messages = await store.claim(options);
        hasReturned = true;
        return messages;
      },
    },
  };
}
