import { keyText } from "../admin/page/key-text.js";
import { type AnyKey, type AnyQueue, deadState, queueOf } from "../queue/any-queue.js";
import { type Change, pastOf, sentenceOf } from "./change.js";
import { type CommandInput, exitCodes } from "./command.js";
import { getMessage, type MessageKey } from "./message-key.js";
import { operatorName } from "./operator-name.js";
import type { QueueStores } from "./queue-stores.js";

/** Replays, discards or archives one message. */
export async function changeOne(
  change: Change,
  { values, terminal }: CommandInput,
  stores: QueueStores,
  key: MessageKey,
): Promise<number> {
  const message = await getMessage(stores, key);
  const isDead = message?.state === deadState[key.queue];
  if (isDead && (await settle(change, queueOf(stores, key.queue), key.key, operatorName(values)))) {
    const result = { [pastOf[change]]: 1 };
    terminal.out(values.json ? JSON.stringify(result) : `${sentenceOf[change]} ${keyText(key.key)}.`);
    return exitCodes.ok;
  }
  const state = isDead ? "is not dead any more" : `is not dead: its state is ${message?.state}`;
  const why = message === null ? `is not in the ${key.queue}` : state;
  terminal.err(`${keyText(key.key)} was not ${pastOf[change]}. It ${why}.`);
  return exitCodes.failed;
}

async function settle(change: Change, store: AnyQueue, key: AnyKey, by: string): Promise<boolean> {
  const { changed } = await store[change]([key], { by });
  return changed.length === 1;
}
