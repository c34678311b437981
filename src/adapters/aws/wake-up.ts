import type { WakeUp } from "../../app/wake-up.js";
import { memoisePromise } from "../../base/memoise-promise.js";
import type { AwsSettings } from "../../config/aws-settings.js";
import { wakeUpMessage } from "./dispatch-event.js";

/** The way that the settings name; without one there is only the schedule. */
export function awsWakeUp({ dispatchFunction, wakeQueueUrl }: AwsSettings): WakeUp | undefined {
  if (dispatchFunction !== undefined) return wakeUpBy(() => invoking(dispatchFunction));
  if (wakeQueueUrl !== undefined) return wakeUpBy(() => queueing(wakeQueueUrl));
  return undefined;
}

type Send = (options: { readonly abortSignal: AbortSignal }) => Promise<unknown>;

/** A webhook waits for 1 s, and one call that hangs must not stand for those after it. */
const longestCallMs = 900;
const message = JSON.stringify(wakeUpMessage);

function wakeUpBy(load: () => Promise<Send>): WakeUp {
  const loaded = memoisePromise(load);
  return {
    // Loading the client takes as long as the rest of a cold start.
    prepare() {
      loaded().catch(() => {}); // told by the call that needs it
    },
    async wake() {
      const send = await loaded();
      await send({ abortSignal: AbortSignal.timeout(longestCallMs) });
    },
  };
}

/** Asynchronously: Lambda answers as soon as it has noted the event. */
async function invoking(name: string): Promise<Send> {
  const { InvokeCommand, LambdaClient } = await import("@aws-sdk/client-lambda");
  const client = new LambdaClient({ maxAttempts: 2 });
  const command = new InvokeCommand({
    FunctionName: name,
    InvocationType: "Event",
    Payload: Buffer.from(message),
  });
  return (options) => client.send(command, options);
}

async function queueing(url: string): Promise<Send> {
  const { SendMessageCommand, SQSClient } = await import("@aws-sdk/client-sqs");
  const client = new SQSClient({ maxAttempts: 2 });
  const command = new SendMessageCommand({ QueueUrl: url, MessageBody: message });
  return (options) => client.send(command, options);
}
