import { createInbox, createWorker, migrate } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

/** A worker for two messages at a time, both of which never return and ignore their signal. */
const db = openSqlite({ file: ":memory:" });
await migrate(db, { outbox: false });
const inbox = createInbox(db);
for (const messageId of ["1", "2"])
  await inbox.enqueue([{ source: "s", messageId, topic: "t", payload: "" }]);
createWorker({
  concurrency: 2,
  handlers: { t: () => new Promise<never>(() => {}) },
  store: inbox,
  timeoutMs: 20,
  exitWhenStuck: true,
});
setTimeout(() => process.exit(0), 20_000); // the test has failed: no process is left behind
