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
  terminal.err(await notDead(pastOf[change], stores, key, message));
  return exitCodes.failed;
}

/** Says why nothing was done. `message` is what was read before. */
export async function notDead(
  past: string,
  stores: QueueStores,
  { queue, key }: MessageKey,
  message: AnyMessage | null,
): Promise<string> {
  const not = `${keyText(key)} was not ${past}.`;
  if (message === null) return `${not} It is not in the ${queue}.`;
  if (message.state === deadState[queue]) return `${not} It is not dead any more.`;
  const [phased] = await withPhases(queueOf(stores, queue), [message]);
  return `${not} It is not dead but ${phased!.phase}.`;
}

async function settle(change: Change, store: AnyQueue, key: AnyKey, by: string): Promise<boolean> {
  const { changed } = await store[change]([key], { by });
  return changed.length === 1;
}
