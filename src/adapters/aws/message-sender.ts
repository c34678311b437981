import { memoisePromise } from "../../base/memoise-promise.js";
import type { AwsSettings } from "../../config/aws-settings.js";

/** Sends a text to the dispatch function: as the event of an invocation, or as a message of the queue that starts it. */
export interface MessageSender {
  send(text: string, withinMs: number): Promise<void>;
  /** Loads the AWS client ahead of the first call: that takes as long as the rest of a cold start. */
  prepare(): void;
}

type Send = (text: string, options: { readonly abortSignal: AbortSignal }) => Promise<unknown>;

/** Undefined where the settings name neither a function nor a queue. */
export function messageSender(
  { dispatchFunction, wakeQueueUrl }: AwsSettings,
  maxAttempts: number,
): MessageSender | undefined {
  if (dispatchFunction !== undefined) return loadedSender(() => invoking(dispatchFunction, maxAttempts));
  if (wakeQueueUrl !== undefined) return loadedSender(() => queueing(wakeQueueUrl, maxAttempts));
  return undefined;
}

function loadedSender(load: () => Promise<Send>): MessageSender {
  const loaded = memoisePromise(load);
  return {
    prepare: () => void loaded().catch(() => {}), // `send` reports it
    async send(text, withinMs) {
      const send = await loaded();
      await send(text, { abortSignal: AbortSignal.timeout(withinMs) });
    },
  };
}

/** Asynchronously: Lambda returns as soon as it has stored the event. */
async function invoking(name: string, maxAttempts: number): Promise<Send> {
  const { InvokeCommand, LambdaClient } = await import("@aws-sdk/client-lambda");
  const client = new LambdaClient({ maxAttempts });
  return (text, options) =>
    client.send(
      new InvokeCommand({ FunctionName: name, InvocationType: "Event", Payload: Buffer.from(text) }),
      options,
    );
}

async function queueing(url: string, maxAttempts: number): Promise<Send> {
  const { SendMessageCommand, SQSClient } = await import("@aws-sdk/client-sqs");
  const client = new SQSClient({ maxAttempts });
  return (text, options) =>
    client.send(new SendMessageCommand({ QueueUrl: url, MessageBody: text }), options);
}
