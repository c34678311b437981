/**
 * A dispatcher process that may be killed at any moment. What it does goes to a log first, one
 * write per line, so that the log of a killed process is whole up to its death:
 * `start seq`, `end seq`, `acked seq`.
 */
import { openSync, writeSync } from "node:fs";
import { createDispatcher, createInbox, type InboxMessage, timeBudget } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const [url, schema, logFile] = process.argv.slice(2) as [string, string, string];
const log = openSync(logFile, "a");
const write = (word: string, seq: number) => writeSync(log, `${word} ${seq} ${process.pid}\n`);

const db = url.startsWith("postgres:") ? openPostgres({ url }) : openSqlite({ file: url });
const inbox = createInbox(db, {
  ...(schema === "" ? {} : { schema }),
  retry: { maxAttempts: 50, baseMs: 1, factor: 1, maxMs: 10 },
});
const logged = {
  ...inbox,
  async ack(...args: Parameters<typeof inbox.ack>) {
    const settlement = await inbox.ack(...args);
    for (const message of settlement.changed) write("acked", (message as InboxMessage).seq);
    return settlement;
  },
};
const dispatcher = createDispatcher<InboxMessage>({
  leaseMs: 4_000,
  handlers: {
    async work(message) {
      write("start", message.seq);
      if (message.seq % 7 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
      write("end", message.seq);
    },
  },
});
await dispatcher.run(logged, timeBudget(120_000));
await db.close();
