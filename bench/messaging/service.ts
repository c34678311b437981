import { z } from "zod";
import { databaseOpeners } from "../../src/config/database-openers.js";
import { openByUrl } from "../../src/config/database-url.js";
import { createService, defineMessages, signal } from "../../src/messaging/index.js";
import { concurrency } from "./two-processes.js";

const messages = defineMessages({ OrderApproved: signal(z.object({ text: z.string() })) });
const secrets = ["Yt1Wq0m2bZ4cQ9n8Xr5sVg=="];

/** A service with the default settings. `ended` is called for each message that was acknowledged, or has failed. */
export async function openSender(url: string, schema: string, address: string, ended: () => void) {
  const db = await openByUrl(databaseOpeners, url, { maxConnections: concurrency });
  const service = createService({
    serviceId: "sender",
    db,
    ...inSchema(schema),
    messages,
    concurrency,
    destinations: { receiver: { address, secrets } },
    metrics: {
      count() {},
      duration() {},
      histogram(name) {
        if (name === "rf_outbox_retry_count") ended(); // once for each message
      },
    },
    logger: { ...silent, error: console.error },
  });
  await service.init();
  return { service, db };
}

/** `started` is called when a handler starts, which does nothing else. */
export async function openReceiver(url: string, schema: string, started: () => void) {
  const db = await openByUrl(databaseOpeners, url, { maxConnections: concurrency });
  const service = createService({
    serviceId: "receiver",
    db,
    ...inSchema(schema),
    messages,
    sources: { sender: { secrets, endpoints: ["OrderApproved"] } },
    receive: { OrderApproved: started },
    logger: { ...silent, error: console.error },
  });
  await service.init();
  return { service, db };
}

const silent = { debug() {}, info() {}, warn() {} };

const inSchema = (schema: string) => (schema === "" ? {} : { schema });
