/**
 * The app that the clouds' scenarios run, in a process of its own. What its handlers do goes to a file, one write per
 * line, so that the file of a killed process is whole up to its death.
 */
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { defineApp } from "../../src/index.js";

const { SCENARIO_LOG: log = "", SCENARIO_SCHEMA: schema = "", SCENARIO_PATIENT: patient } = process.env;
const { TEST_RETENTION_MS: retentionMs } = process.env;
/** For a server that needs long for the first statements of each session. */
const patientTimes = { leaseMs: 60_000, settleTimeoutMs: 60_000 };
const write = (word: string, id: string) => appendFileSync(log, `${word} ${id} ${process.pid}\n`);

export default defineApp({
  schema,
  // an app that receives is refused where it would forget deliveries while copies of them are accepted
  ...(retentionMs === undefined && {
    sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "SCENARIO_SECRET" } } },
  }),
  handlers: ({ outbox }) => ({
    "stripe.invoice.paid": {
      transactional: true,
      async handle({ messageId, payload }, { tx }) {
        await outbox.enqueue({ topic: "receipt", payload, correlationId: messageId }, tx ? { tx } : {});
        write("handled", messageId);
      },
    },
    async slow({ messageId }) {
      write("started", messageId);
      await sleep(200);
      write("handled", messageId);
    },
    /** At first it never gives the processor back, so that nothing but a kill ends it. */
    "stripe.stuck": ({ messageId, attempt }) => {
      write(attempt === 0 ? "stuck" : "handled", messageId);
      while (attempt === 0);
    },
  }),
  consumer: {
    subscriber: "orders",
    handle({ messageId, payload }) {
      write("consumed", messageId);
      return { topic: "receipt", payload, correlationId: messageId };
    },
  },
  publishers: { receipt: ({ correlationId }) => write("published", correlationId!) },
  inbox: { retry: { maxAttempts: 10, baseMs: 1, factor: 1, maxMs: 10 } },
  outbox: { retry: { maxAttempts: 10, baseMs: 1, factor: 1, maxMs: 10 } },
  dispatch: { leaseMs: 2_000, batchSize: 10, concurrency: 4, ...(patient ? patientTimes : {}) },
  webhooks: { maxBodyBytes: 64 * 1024, ...(patient ? { receiveMs: 60_000 } : {}) },
  retentionMs: Number(retentionMs ?? 86_400_000),
});
