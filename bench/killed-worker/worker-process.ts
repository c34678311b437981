import { setTimeout as sleep } from "node:timers/promises";
import { databaseOpeners } from "../../src/config/database-openers.js";
import { openByUrl } from "../../src/config/database-url.js";
import { createInbox, createWorker } from "../../src/index.js";

// A worker that may be killed at any moment. Again and again it sends how many messages it has acknowledged since the last
// time.
const everyMs = 20;

const [url, schema, leaseMs, shortestMs, longestMs] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
];
const handlerMs = (): number => Number(shortestMs) + Math.random() * (Number(longestMs) - Number(shortestMs));

const db = await openByUrl(databaseOpeners, url);
const inbox = createInbox(db, schema === "" ? {} : { schema });
let acked = 0;
createWorker({
  concurrency: 10,
  leaseMs: Number(leaseMs),
  handlers: { "order.created": () => sleep(handlerMs()) },
  store: {
    ...inbox,
    async ack(...args: Parameters<typeof inbox.ack>) {
      const settlement = await inbox.ack(...args);
      acked += settlement.changed.length;
      return settlement;
    },
  },
});
setInterval(() => {
  process.send!(acked);
  acked = 0;
}, everyMs);
process.on("disconnect", () => process.exit());
