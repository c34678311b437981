/**
 * The main job on SQLite, from arrival to done: what `npm start` shows. Everything it
 * prints comes from the database it made.
 */
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInbox, createOutbox, migrate, newOwnerToken } from "../src/index.js";
import { openSqlite } from "../src/sql/sqlite/index.js";

const folder = await mkdtemp(join(tmpdir(), "oncebox-demo-"));
const db = openSqlite({ file: join(folder, "demo.db") });
const say = (what: string, result: unknown) => console.log(`${what.padEnd(58)} ${JSON.stringify(result)}`);

try {
  const { applied } = await migrate(db);
  say("migrate", applied);

  const inbox = createInbox(db);
  const outbox = createOutbox(db);

  const payload = JSON.stringify({ id: "evt_1", type: "payment.received", amount: 4200 });
  const event = {
    source: "stripe",
    messageId: "evt_1",
    topic: "payment.received",
    payload,
    hash: createHash("sha256").update(payload).digest(),
  };
  say("a webhook arrives", await inbox.receive(event));
  say("the provider sends it again", await inbox.receive(event));
  say(
    "the same id with another body",
    await inbox.receive({ ...event, hash: createHash("sha256").update("?").digest() }),
  );

  const owner = newOwnerToken();
  const [message] = await inbox.claim({ owner });
  say("a worker claims it", { messageId: message?.messageId, attempt: message?.attempt });
  say("another worker finds nothing to claim", await inbox.claim({ owner: newOwnerToken() }));

  await db.driver.transaction(async (tx) => {
    await outbox.enqueue({ topic: "receipt.send", payload, correlationId: "evt_1" }, { tx });
  });
  say("the handler enqueues an outgoing message in a transaction", (await outbox.stats()).counts);

  const { changed, lost } = await inbox.ack(owner, message ? [message] : []);
  say("the worker acknowledges", { changed: changed.length, lost: lost.length });
  say("and once more: it is no longer its to settle", {
    lost: (await inbox.ack(owner, changed)).lost.length,
  });
  say("the provider sends it a third time", await inbox.receive({ ...event, hash: null }));

  const [outgoing] = await outbox.claim({ owner });
  say("the outgoing message is claimed", { topic: outgoing?.topic, correlationId: outgoing?.correlationId });
  await outbox.abandon(owner, outgoing ? [outgoing] : [], {
    error: "the mail server did not answer",
    delayMs: 60_000,
  });
  say(
    "its receiver is down: it waits for a retry",
    (await outbox.list()).messages.map((m) => [m.state, m.attempt, m.lastError]),
  );

  say("inbox", (await inbox.stats()).counts);
  say("outbox", (await outbox.stats()).counts);
} finally {
  await db.close();
  await rm(folder, { recursive: true, force: true });
}
