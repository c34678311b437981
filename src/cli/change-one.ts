import { withPhases } from "../admin/list-phased.js";
import { keyText } from "../admin/page/key-text.js";
import { type AnyKey, type AnyMessage, type AnyQueue, deadState, queueOf } from "../queue/any-queue.js";
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
  const why = isDead ? "is not dead any more" : await whyNotDead(stores, key, message);
  terminal.err(`${keyText(key.key)} was not ${pastOf[change]}. It ${why}.`);
  return exitCodes.failed;
}

async function whyNotDead(
  stores: QueueStores,
  { queue }: MessageKey,
  message: AnyMessage | null,
): Promise<string> {
  if (message === null) return `is not in the ${queue}`;
  const [phased] = await withPhases(queueOf(stores, queue), [message]);
  return `is not dead but ${phased!.phase}`;
}

async function settle(change: Change, store: AnyQueue, key: AnyKey, by: string): Promise<boolean> {
  const { changed } = await store[change]([key], { by });
  return changed.length === 1;
}
