/** Sends at most `most` messages of an outbox to an inbox in another file; prints the payloads, one line of JSON. */
import { createInbox, createOutbox, migrate, newOwnerToken } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const [from, to, most] = process.argv.slice(2);
const sender = openSqlite({ file: from! });
const receiver = openSqlite({ file: to! });
await migrate(receiver);
const outbox = createOutbox(sender);
const inbox = createInbox(receiver);
const owner = newOwnerToken();
const report = { enqueued: [] as string[], done: [] as string[] };
for (let left = Number(most); left > 0; ) {
  const messages = await outbox.claim({ owner, batchSize: Math.min(left, 20) });
  if (messages.length === 0) break;
  left -= messages.length;
  for (const { messageId, topic, payload } of messages) {
    const outcome = await inbox.receive({ source: "sender", messageId, topic, payload });
    if (outcome !== "enqueued" && outcome !== "done") throw new Error(`${payload} is ${outcome}`);
    report[outcome].push(payload);
  }
  await outbox.ack(owner, messages);
}
await sender.close();
await receiver.close();
console.log(JSON.stringify(report));
