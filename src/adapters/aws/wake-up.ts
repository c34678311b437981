import type { WakeUp } from "../../app/wake-up.js";
import type { AwsSettings } from "../../config/aws-settings.js";
import { wakeUpMessage } from "./dispatch-event.js";
import { messageSender } from "./message-sender.js";

/** A webhook waits for 1 s, and a call that hangs must not delay the calls after it. */
const longestCallMs = 900;
const message = JSON.stringify(wakeUpMessage);

/** Undefined where the settings name neither a function nor a queue: then there is only the schedule. */
export function awsWakeUp(settings: AwsSettings): WakeUp | undefined {
  const sender = messageSender(settings, 2);
  if (sender === undefined) return undefined;
  return { prepare: sender.prepare, wake: () => sender.send(message, longestCallMs) };
}
