import { memoisePromise } from "../../base/memoise-promise.js";
import { requirePackage } from "../../base/require-package.js";
import type { AwsSettings } from "../../config/aws-settings.js";

type Send = (text: string, options: { readonly abortSignal: AbortSignal }) => Promise<unknown>;

export interface DispatchSender {
  send(text: string): Promise<void>;
  /** Loads the AWS client, which takes as long as the rest of a cold start. */
  prepare(): void;
}

export interface DispatchSenderOptions {
  /** Limit of one call, so that a call that hangs does not block later ones. */
  readonly maxCallMs: number;
  readonly maxAttempts: number;
}

/**
 * Sends an event to the dispatch function: by an invocation or through the wake-up queue, as the settings say. Undefined
 * when they name neither, so that only the schedule starts the function.
 */
export function dispatchSender(
  { dispatchFunction, wakeQueueUrl }: Pick<AwsSettings, "dispatchFunction" | "wakeQueueUrl">,
  { maxCallMs, maxAttempts }: DispatchSenderOptions,
): DispatchSender | undefined {
  if (dispatchFunction !== undefined) {
    requirePackage("@aws-sdk/client-lambda", "Waking the dispatch function");
    return senderBy(() => invokeFunction(dispatchFunction, maxAttempts), maxCallMs);
  }
  if (wakeQueueUrl !== undefined) {
    requirePackage("@aws-sdk/client-sqs", "The wake-up queue");
    return senderBy(() => sendToQueue(wakeQueueUrl, maxAttempts), maxCallMs);
  }
  return undefined;
}

function senderBy(load: () => Promise<Send>, maxCallMs: number): DispatchSender {
  const loaded = memoisePromise(load);
  return {
    prepare: () => void loaded().catch(() => {}), // `send` tries again and reports it
    async send(text) {
      const send = await loaded();
      await send(text, { abortSignal: AbortSignal.timeout(maxCallMs) });
    },
  };
}

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
