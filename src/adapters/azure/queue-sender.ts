import { memoisePromise } from "../../base/memoise-promise.js";
import { requirePackage } from "../../base/require-package.js";
import type { QueueStorage } from "../../config/azure-settings.js";
import { openQueue } from "./open-queue.js";

/** Limit of one call, so that a call that hangs does not block later ones. */
const maxCallMs = 2_000;
/** In seconds. By then the timer has started the function anyway. */
const messageTimeToLive = 120;

export interface QueueSender {
  send(text: string): Promise<void>;
  /** Loads the Azure client, which takes time. */
  prepare(): void;
}

/** Sends texts to a queue, and creates the queue if it does not exist. */
export function queueSender(storage: QueueStorage, name: string): QueueSender {
  requirePackage("@azure/storage-queue", `The queue ${name}`);
  const queue = memoisePromise(() => openQueue(storage, name));
  return {
    prepare: () => void queue().catch(() => {}), // `send` tries again and reports it
    async send(text) {
      const client = await queue();
      const abortSignal = AbortSignal.timeout(maxCallMs);
      // The queue trigger expects base64 unless host.json says otherwise.
      const message = Buffer.from(text).toString("base64");
      const send = () => client.sendMessage(message, { messageTimeToLive, abortSignal });
      try {
        await send();
      } catch (error) {
        if ((error as { code?: unknown }).code !== "QueueNotFound") throw error;
        await client.createIfNotExists({ abortSignal });
        await send();
      }
    },
  };
}
