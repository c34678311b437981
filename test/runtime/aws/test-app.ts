import { setTimeout as sleep } from "node:timers/promises";
import { defineApp } from "../../../src/app/definition.js";
import { statement } from "../../../src/sql/driver.js";

/** The app under test. Each handler writes a row every time it runs to its end. */
const { TEST_EFFECTS: effects = "effects", TEST_SCHEMA: schema } = process.env;
const leave = statement("leave", `insert into ${effects} (message, process) values (:message, :process)`);
const processes = statement("processes", `select count(distinct process) as total from ${effects}`);

export default defineApp({
  ...(schema === undefined ? {} : { schema }),
  sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "TEST_WEBHOOK_SECRET" } } },
  webhooks: { maxBodyBytes: 32 * 1024 },
  inbox: { retry: { baseMs: 1, maxMs: 1 } },
  dispatch: { leaseMs: 1_000 },
  retentionMs: Number(process.env.TEST_RETENTION_MS ?? 86_400_000),
  handlers: ({ db, outbox }) => {
    const done = (message: string) => db.driver.query(leave, { message, process: process.pid });
    return {
      "stripe.invoice.paid": async ({ messageId, payload }) => {
        await done(messageId);
        await outbox.enqueue({ topic: "receipt.send", payload, correlationId: messageId });
      },
      "takes.long": async ({ messageId }, { signal }) => {
        await sleep(300, undefined, { signal });
        await done(messageId);
      },
      /** Waits until two processes have handled a message, or until it is told to stop. */
      "two.needed": async ({ messageId }, { signal }) => {
        await done(messageId);
        const both = async () => Number((await db.driver.query(processes, {}))[0]?.total) === 2;
        while (!(await both())) await sleep(20, undefined, { signal });
      },
      /** Blocks the thread the first time, which is the worst that a handler can do. */
      "keeps.thread": async ({ messageId, attempt }) => {
        while (attempt === 0);
        await done(messageId);
      },
    };
  },
  publishers: ({ db }) => ({
    "receipt.send": async ({ correlationId }) => {
      await db.driver.query(leave, { message: `receipt of ${correlationId}`, process: process.pid });
    },
  }),
});
