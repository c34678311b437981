import type { WakeUp } from "../../app/wake-up.js";
import type { AwsSettings } from "../../config/aws-settings.js";
import { wakeUpMessage } from "./dispatch-event.js";
import { dispatchSender } from "./dispatch-sender.js";

const message = JSON.stringify(wakeUpMessage);

/** Wakes the dispatch function. Undefined when the settings name no way to do so. */
export function awsWakeUp(settings: AwsSettings): WakeUp | undefined {
  // A webhook waits 1 s for the wake-up.
  const sender = dispatchSender(settings, { maxCallMs: 900, maxAttempts: 2 });
  if (sender === undefined) return undefined;
  return { prepare: sender.prepare, wake: () => sender.send(message) };
}
