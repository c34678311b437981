/** Takes the pictures of the admin page in docs/images, of an hour that never was. */

import { fileURLToPath } from "node:url";
import type { BrowserContextOptions } from "playwright-core";
import { createInbox } from "../src/inbox/inbox.js";
import { operatorsOf } from "../src/operators/operators-of.js";
import { createOutbox } from "../src/outbox/outbox.js";
import { newOwnerToken } from "../src/queue/leases.js";
import { migrate } from "../src/sql/migrate.js";
import { openSqlite } from "../src/sql/sqlite/index.js";
import { startAdmin } from "../test/support/admin/start-admin.js";
import { openPage, showView } from "../test/support/browser/admin-page.js";
import { startBrowser } from "../test/support/browser/start-browser.js";

const minutes = 60;
const topic = "stripe.invoice.paid";
const source = "stripe";
let now = new Date();

const db = openSqlite({ file: ":memory:" });
const options = { clock: () => now };
const inbox = createInbox(db, options);
const outbox = createOutbox(db, options);

const errors = [
  (id: string) => `PermanentFailure: HTTP 503 from the mail service for request ${id}`,
  (id: string) => `PermanentFailure: no customer has the number ${id.slice(4)}`,
];

/** One minute: some messages arrive, fewer are handled while the mail service is slow, and some die. */
async function liveThrough(minute: number): Promise<void> {
  const arriving = Math.round(34 + 14 * Math.sin(minute / 7) + (minute % 5));
  const handled = minute > 34 && minute < 46 ? Math.round(arriving * 0.7) : arriving + 6;
  const dying = minute > 36 && minute < 44 ? 2 : 0;
  const ids = Array.from({ length: arriving }, (_, index) => `evt_${minute * 100 + index}`);
  await inbox.enqueue(
    ids.map((messageId) => ({
      source,
      messageId,
      topic,
      payload: JSON.stringify({ id: messageId, amount: 4200 }),
    })),
  );
  const owner = newOwnerToken();
  const claimed = await inbox.claim({ owner, batchSize: handled });
  now = new Date(now.getTime() + 400);
  for (const [index, message] of claimed.slice(0, dying).entries())
    await inbox.fail(owner, [message], errors[(minute + index) % errors.length]!(message.messageId));
  const well = claimed.slice(dying);
  await inbox.ack(owner, well);
  await outbox.enqueue(
    well.map(({ messageId, payload }) => ({ topic: "receipt.send", payload, correlationId: messageId })),
  );
  const sent = await outbox.claim({ owner, batchSize: handled + 3 });
  now = new Date(now.getTime() + 900);
  await outbox.ack(owner, sent);
}

await migrate(db);
const end = now.getTime();
for (let minute = 0; minute < minutes; minute++) {
  now = new Date(end - (minutes - minute - 0.5) * 60_000);
  await liveThrough(minute);
}
now = new Date(end);
await operatorsOf(outbox).limit({ topic: "receipt.send", perSecond: 20 }, { by: "alice" });

const started = await startBrowser();
if (typeof started === "string") throw new Error(started);
const admin = await startAdmin({
  stores: { inbox: createInbox(db), outbox: createOutbox(db) },
});

async function take(name: string, hash: string, size: BrowserContextOptions = {}): Promise<void> {
  const viewport = { width: 1200, height: 780 };
  const shown = await openPage((started as Exclude<typeof started, string>).browser, admin.url, {
    viewport,
    reducedMotion: "reduce",
    ...size,
  });
  await showView(shown.page, hash);
  await shown.page.screenshot({
    path: fileURLToPath(new URL(`../docs/images/${name}.png`, import.meta.url)),
  });
  await shown.close();
}

const { messages } = await inbox.list({ state: "Dead", limit: 1 });
const key = new URLSearchParams({ source, messageId: messages[0]!.messageId });
await take("admin-overview", "#/", { viewport: { width: 1200, height: 720 } });
await take("admin-dead-letters", "#/dead/inbox");
await take("admin-message", `#/message/inbox?${key}`);
await take("admin-phone", "#/dead/inbox", { viewport: { width: 390, height: 780 }, colorScheme: "dark" });

await admin.close();
await started.stop();
await db.close();
