/** Claims and acknowledges until nothing is left; prints the ids it had, one line of JSON. */
import { createInbox, newOwnerToken } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const db = openSqlite({ file: process.argv[2]! });
const inbox = createInbox(db);
const owner = newOwnerToken();
const ids: string[] = [];
for (;;) {
  const messages = await inbox.claim({ owner, batchSize: 20 });
  if (messages.length === 0) break;
  const { lost } = await inbox.ack(owner, messages);
  if (lost.length > 0) throw new Error(`${lost.length} messages were lost`);
  ids.push(...messages.map((message) => message.messageId));
}
await db.close();
console.log(JSON.stringify(ids));
