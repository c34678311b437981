import type { SQSEvent } from "aws-lambda";

/** Lambda's event for messages of a queue. */
export function sqsEvent(
  messages: readonly {
    MessageId?: string | undefined;
    ReceiptHandle?: string | undefined;
    Body?: string | undefined;
  }[],
): SQSEvent {
  return {
    Records: messages.map((message) => ({
      messageId: message.MessageId!,
      receiptHandle: message.ReceiptHandle!,
      body: message.Body!,
      attributes: {
        ApproximateReceiveCount: "1",
        SentTimestamp: "0",
        SenderId: "test",
        ApproximateFirstReceiveTimestamp: "0",
      },
      messageAttributes: {},
      md5OfBody: "",
      eventSource: "aws:sqs",
      eventSourceARN: "arn:aws:sqs:us-east-1:000000000000:wake",
      awsRegion: "us-east-1",
    })),
  };
}
