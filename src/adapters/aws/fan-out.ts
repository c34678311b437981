import { memoisePromise } from "../../base/memoise-promise.js";
import type { AwsSettings } from "../../config/aws-settings.js";
import { type FanOut, tenantBatchMessage } from "../../tenants/fan-out/tenant-batch.js";

type Send = (text: string, options: { readonly abortSignal: AbortSignal }) => Promise<unknown>;

const longestCallMs = 5_000;

/** The function or queue that wakes a dispatcher also starts workers for tenant batches. Undefined without one: one function serves all tenants. */
export function awsFanOut({ dispatchFunction, wakeQueueUrl }: AwsSettings): FanOut | undefined {
  if (dispatchFunction !== undefined) return sendingBy(() => invoking(dispatchFunction));
  if (wakeQueueUrl !== undefined) return sendingBy(() => queueing(wakeQueueUrl));
  return undefined;
}

function sendingBy(load: () => Promise<Send>): FanOut {
  const loaded = memoisePromise(load);
  return {
    prepare: () => void loaded().catch(() => {}), // `send` reports it
    async send(batch) {
      const send = await loaded();
      await send(tenantBatchMessage(batch), { abortSignal: AbortSignal.timeout(longestCallMs) });
    },
  };
}

/** Asynchronously: Lambda returns as soon as it has stored the event. */
async function invoking(name: string): Promise<Send> {
  const { InvokeCommand, LambdaClient } = await import("@aws-sdk/client-lambda");
  const client = new LambdaClient({ maxAttempts: 3 });
  return (text, options) =>
    client.send(
      new InvokeCommand({ FunctionName: name, InvocationType: "Event", Payload: Buffer.from(text) }),
      options,
    );
}

async function queueing(url: string): Promise<Send> {
  const { SendMessageCommand, SQSClient } = await import("@aws-sdk/client-sqs");
  const client = new SQSClient({ maxAttempts: 3 });
  return (text, options) =>
    client.send(new SendMessageCommand({ QueueUrl: url, MessageBody: text }), options);
}
