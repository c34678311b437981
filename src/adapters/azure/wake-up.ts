import type { WakeUp } from "../../app/wake-up.js";
import type { AzureSettings } from "../../config/azure-settings.js";
import { queueSender } from "./queue-sender.js";

const message = JSON.stringify({ oncebox: "wake-up" });

/** Wakes the dispatch function by a message in a queue. Undefined when the settings name no queue. */
export function azureWakeUp({ wakeUp }: Pick<AzureSettings, "wakeUp">): WakeUp | undefined {
  if (wakeUp === undefined) return undefined;
  const { send } = queueSender(wakeUp.storage, wakeUp.queue);
  return { wake: () => send(message) };
}
