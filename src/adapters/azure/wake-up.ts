import type { WakeUp } from "../../app/wake-up.js";
import type { AzureSettings } from "../../config/azure-settings.js";
import { queueSender } from "./queue-sender.js";

const message = JSON.stringify({ oncebox: "wake-up" });

/** A message in the queue that the settings name; without one there is only the timer. */
export function azureWakeUp({ wakeUp }: AzureSettings): WakeUp | undefined {
  if (wakeUp === undefined) return undefined;
  const { send } = queueSender(wakeUp.storage, wakeUp.queue);
  return { wake: () => send(message) };
}
