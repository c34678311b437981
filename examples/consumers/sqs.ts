import { DeleteMessageCommand, ReceiveMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { consumeOnce, type InboxStore } from "oncebox/inbox-store";
import type { Handle, Order } from "./order.js";

/** A message that is not deleted becomes visible again after the queue's visibility timeout. */
export async function consumeOrders(
  sqs: SQSClient,
  QueueUrl: string,
  store: InboxStore,
  handle: Handle,
  stop: AbortSignal,
): Promise<void> {
  const once = consumeOnce<Order>(store, { bus: "sqs", group: "billing", alias: "order.placed" }, handle);
  const asked = { QueueUrl, WaitTimeSeconds: 20, MaxNumberOfMessages: 10, MessageAttributeNames: ["All"] };
  while (!stop.aborted) {
    const { Messages = [] } = await sqs.send(new ReceiveMessageCommand(asked), { abortSignal: stop });
    await Promise.allSettled(
      Messages.map(async ({ MessageId, MessageAttributes = {}, Body = "", ReceiptHandle }) => {
        const headers = Object.fromEntries(
          Object.entries(MessageAttributes).map(([name, { StringValue }]) => [name, StringValue]),
        );
        await once({ messageId: MessageId, headers, body: Body });
        await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
      }),
    );
  }
}
