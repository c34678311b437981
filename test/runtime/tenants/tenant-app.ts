/** An app with many tenants, for processes of its own. Its handlers write one line per call to a file. */
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { multiTenant, tenantsFromConfiguration } from "../../../src/app/tenants.js";
import { defineApp } from "../../../src/index.js";

const { TENANTS = "[]", TENANTS_LOG: log = "", TENANTS_PATIENT: patient } = process.env;
const write = (word: string, store: string, id: string) =>
  appendFileSync(log, `${word} ${store} ${id} ${process.pid}\n`);

export default defineApp({
  tenants: multiTenant({ discover: tenantsFromConfiguration(JSON.parse(TENANTS)), tenantBatchSize: 4 }),
  sources: {
    stripe: {
      scheme: "stripe",
      secrets: { from: "env", name: "TENANTS_SECRET" },
      tenant: "{path}",
    },
  },
  handlers: ({ outbox }) => ({
    async "stripe.invoice.paid"({ messageId, payload }, { store }) {
      await outbox.enqueue({ topic: "receipt", payload, correlationId: messageId });
      write("handled", store, messageId);
    },
    async slow({ messageId }, { store }) {
      await sleep(500);
      write("handled", store, messageId);
    },
  }),
  publishers: { receipt: ({ correlationId }, { store }) => write("published", store, correlationId!) },
  dispatch: { concurrency: 2, batchSize: 10 },
  // for a server that needs long for the first statements of each session
  ...(patient ? { webhooks: { receiveMs: 60_000 } } : {}),
  retentionMs: Number(process.env.TEST_RETENTION_MS ?? 86_400_000),
});
