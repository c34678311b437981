import type { WakeUp } from "../../app/wake-up.js";
import { memoisePromise } from "../../base/async.js";
import { requirePackage } from "../../base/require-package.js";
import type { AwsSettings } from "../../config/aws-settings.js";
import { type FanOut, tenantBatchMessage } from "../../tenants/fan-out/tenant-batch.js";
import { wakeUpMessage } from "./events.js";

const message = JSON.stringify(wakeUpMessage);

/** Wakes the dispatch function. Undefined when the settings name no way to do so. */
export function awsWakeUp(settings: AwsSettings): WakeUp | undefined {
  // A webhook waits 1 s for the wake-up.
  const sender = dispatchSender(settings, { maxCallMs: 900, maxAttempts: 2 });
  if (sender === undefined) return undefined;
  return { prepare: sender.prepare, wake: () => sender.send(message) };
}

/** Sends tenant batches to the dispatch function. Undefined when the settings name no way to do so: one function does it all. */
export function awsFanOut(settings: AwsSettings): FanOut | undefined {
  const sender = dispatchSender(settings, { maxCallMs: 5_000, maxAttempts: 3 });
  if (sender === undefined) return undefined;
  return { prepare: sender.prepare, send: (batch) => sender.send(tenantBatchMessage(batch)) };
}

interface CallLimits {
  /** Limit of one call, so that a call that hangs does not block later ones. */
  readonly maxCallMs: number;
  readonly maxAttempts: number;
}

/**
 * Sends an event to the dispatch function: by an invocation or through the wake-up queue, as the settings say. Undefined
 * when they name neither, so that only the schedule starts the function.
 */
function dispatchSender(
  { dispatchFunction, wakeQueueUrl }: AwsSettings,
  { maxCallMs, maxAttempts }: CallLimits,
) {
  if (dispatchFunction === undefined && wakeQueueUrl === undefined) return undefined;
  if (dispatchFunction !== undefined)
    requirePackage("@aws-sdk/client-lambda", "Waking the dispatch function");
  else requirePackage("@aws-sdk/client-sqs", "The wake-up queue");
  const load = memoisePromise(() =>
    dispatchFunction !== undefined
      ? invokeFunction(dispatchFunction, maxAttempts)
      : sendToQueue(wakeQueueUrl!, maxAttempts),
  );
  return {
    /** Loads the AWS client, which takes as long as the rest of a cold start. */
    prepare: () => void load().catch(() => {}), // `send` tries again and reports it
    async send(text: string): Promise<void> {
      const send = await load();
      await send(text, { abortSignal: AbortSignal.timeout(maxCallMs) });
    },
  };
}

type Send = (text: string, options: { readonly abortSignal: AbortSignal }) => Promise<unknown>;

/** `Event` makes the call asynchronous: Lambda responds before the function has run. */
async function invokeFunction(name: string, maxAttempts: number): Promise<Send> {
  const { InvokeCommand, LambdaClient } = await import("@aws-sdk/client-lambda");
  const client = new LambdaClient({ maxAttempts });
  return (text, options) =>
    client.send(
      new InvokeCommand({ FunctionName: name, InvocationType: "Event", Payload: Buffer.from(text) }),
      options,
    );
}

async function sendToQueue(url: string, maxAttempts: number): Promise<Send> {
  const { SendMessageCommand, SQSClient } = await import("@aws-sdk/client-sqs");
  const client = new SQSClient({ maxAttempts });
  return (text, options) =>
    client.send(new SendMessageCommand({ QueueUrl: url, MessageBody: text }), options);
}
