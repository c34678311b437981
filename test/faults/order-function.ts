import type { SQSEvent, SQSRecord } from "aws-lambda";
import { sqsHandler } from "../../src/adapters/aws/middleware.js";
import { type Database, statement } from "../../src/index.js";
import {
  compose,
  currentTransaction,
  inbox,
  outbox,
  type TriggerMessage,
  transaction,
} from "../../src/middleware/index.js";

/** A function with all three middleware. It writes two business rows and two outgoing messages, named after the message. */
export function orderFunction(
  db: Database,
  schema: string | undefined,
): (event: SQSEvent) => ReturnType<ReturnType<typeof sqsHandler>> {
  const named = schema === undefined ? {} : { schema };
  const prefix = schema === undefined ? "" : `${schema}.`;
  const insertInto = (table: string) =>
    statement(`insert ${table}`, `insert into ${prefix}${table} (id) values (:id)`);
  const handle = compose<TriggerMessage>(
    [transaction(db), inbox({ subscriber: "s", ...named }), outbox(named)],
    async ({ messageId }) => {
      const tx = currentTransaction()!;
      await tx.query(insertInto("orders"), { id: messageId });
      await tx.query(insertInto("lines"), { id: messageId });
      return ["placed", "billed"].map((topic) => ({ topic, payload: messageId }));
    },
  );
  return sqsHandler({ handle });
}

/** Two messages of one FIFO group, the second to be handled after the first. */
export const groupOfTwo = (group: string): SQSEvent => ({
  Records: idsOf(group).map(
    (messageId) =>
      ({
        messageId,
        body: "{}",
        attributes: { MessageGroupId: group, ApproximateReceiveCount: "1" },
        messageAttributes: {},
        eventSourceARN: "arn:aws:sqs:us-east-1:000000000000:orders.fifo",
      }) as unknown as SQSRecord,
  ),
});

export const idsOf = (group: string): readonly [string, string] => [`${group}-first`, `${group}-second`];
