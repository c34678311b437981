import type { Handlers, InboxMessage, ReturnedMessage } from "oncebox";
import { createInbox, createOutbox, createWorker, defineApp, permanentFailure, retryAfter } from "oncebox";
import { openSqlite } from "oncebox/sqlite";
import { z } from "zod";

const id = z.object({ id: z.string() });
const topics = { "receipt.send": id, "invoice.book": id };

const anything = JSON.parse("{}");
declare const untyped: ReturnedMessage;
const receipt = (of: string) => ({ topic: "receipt.send", data: { id: of }, headers: { a: "b" } }) as const;

const all = defineApp({
  topics,
  handlers: {
    "order.every": ({ data, messageId: naturalKey }) => ({
      topic: "receipt.send",
      data: { id: String(data) },
      naturalKey,
      partitionKey: null,
      correlationId: "c",
      headers: { a: "b" },
      attributes: { a: 1 },
      dueAt: new Date(),
      expiresAt: undefined,
    }),
    "order.either": ({ attempt, messageId }) => {
      if (attempt > 5) return permanentFailure("too late");
      if (attempt > 4) throw retryAfter(1_000);
      if (attempt > 3) return [receipt(messageId), { topic: "invoice.book", data: { id: messageId } }];
      return attempt > 2 ? receipt(messageId) : null;
    },
    "order.made": ({ messageId }) => receipt(messageId),
    "order.any": () => anything,
    "order.nothing": async () => {},
    "order.schema": { schema: id, timeoutMs: 5, handle: async ({ data }) => [receipt(data.id)] },
  },
});
const some = defineApp({
  handlers: {
    "order.any": () => anything,
    "order.untyped": { handle: async ({ data }) => [untyped, { topic: "t", data }] },
    "order.payload": ({ payload }) => ({ topic: "t", payload }),
    "order.result": { transactional: true, handle: async (_message, { tx }) => void (await tx.native) },
  },
});
const made = defineApp({
  topics,
  handlers: ({ inbox }) => {
    const source = inbox.id;
    return {
      "receipt.send": ({ data }) => receipt(data.id + source),
      "order.tx": { transactional: true, handle: async (_message, { tx }) => void (await tx.native) },
    };
  },
});

const handlers: Handlers<InboxMessage> = { t: ({ data }) => ({ topic: "t", data }) };
const db = openSqlite({ file: "app.db" });
const [inbox, outbox] = [createInbox(db), createOutbox(db, { topics })];
const worker = createWorker({ store: inbox, handlers });
const typed = createWorker({
  store: inbox,
  outbox,
  handlers: {
    t: ({ messageId }) => receipt(messageId),
    u: { schema: id, handle: ({ data }) => [receipt(data.id)] },
  },
});

export { all, made, some, typed, worker };
