import { retriable } from "../../app/retriable.js";
import type { WakeUp } from "../../app/wake-up.js";
import type { AwsSettings } from "../../config/aws-settings.js";
import { wakeUpMessage } from "./dispatch-event.js";

/**
 * Every call ends within this time. A webhook waits for 1 s, and one call that hangs must not stand for those after it.
 */
const longestCallMs = 900;
const message = JSON.stringify(wakeUpMessage);

/** The way that the settings name; without one there is only the schedule. */
export function awsWakeUp({ dispatchFunction, wakeQueueUrl }: AwsSettings): WakeUp | undefined {
  if (dispatchFunction !== undefined) return wakeByInvoking(dispatchFunction);
  if (wakeQueueUrl !== undefined) return wakeByQueue(wakeQueueUrl);
  return undefined;
}

/** Asynchronously: Lambda answers as soon as it has noted the event. */
function wakeByInvoking(name: string): WakeUp {
  const send = retriable(async () => {
    const { InvokeCommand, LambdaClient } = await import("@aws-sdk/client-lambda");
    const client = new LambdaClient({ maxAttempts: 2 });
    const command = new InvokeCommand({
      FunctionName: name,
      InvocationType: "Event",
      Payload: Buffer.from(message),
    });
    return (abortSignal: AbortSignal) => client.send(command, { abortSignal });
  });
  return { wake: async () => void (await (await send())(AbortSignal.timeout(longestCallMs))) };
}

function wakeByQueue(url: string): WakeUp {
  const send = retriable(async () => {
    const { SendMessageCommand, SQSClient } = await import("@aws-sdk/client-sqs");
    const client = new SQSClient({ maxAttempts: 2 });
    const command = new SendMessageCommand({ QueueUrl: url, MessageBody: message });
    return (abortSignal: AbortSignal) => client.send(command, { abortSignal });
  });
  return { wake: async () => void (await (await send())(AbortSignal.timeout(longestCallMs))) };
}
