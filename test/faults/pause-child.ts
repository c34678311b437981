/**
 * A dispatcher process that runs until its input ends. Each claim goes to a log, one write per line, with the database's times before
 * and after it: `claim from to pid topic topic …`; and each message that was handled: `handled seq topic pid`.
 */
import { openSync, writeSync } from "node:fs";
import { sleep } from "../../src/base/async.js";
import { createDispatcher, createInbox, type InboxMessage, timeBudget } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { databaseTime } from "./database-time.js";

const [url, schema, logFile] = process.argv.slice(2) as [string, string, string];
const log = openSync(logFile, "a");
const write = (...words: readonly (string | number)[]) => writeSync(log, `${words.join(" ")}\n`);

const db = openPostgres({ url, maxConnections: 3 });
const inbox = createInbox(db, { schema });
const logged = {
  ...inbox,
  async claim(options: Parameters<typeof inbox.claim>[0]) {
    const from = await databaseTime(db);
    const messages = await inbox.claim(options);
    write("claim", from, await databaseTime(db), process.pid, ...messages.map(({ topic }) => topic));
    return messages;
  },
};
const handle = async ({ seq, topic }: InboxMessage): Promise<void> =>
  void write("handled", seq, topic, process.pid);
const dispatcher = createDispatcher<InboxMessage>({
  handlers: { mail: handle, other: handle },
  batchSize: 10,
});

let hasInput = true;
process.stdin.on("end", () => {
  hasInput = false;
});
process.stdin.resume();
while (hasInput) {
  await dispatcher.run(logged, timeBudget(5_000));
  await sleep(20);
}
await db.close();
