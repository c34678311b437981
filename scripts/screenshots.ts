/** Takes the pictures of the admin page in docs/images, of an example app with made-up messages. */
import { startLocalRun } from "../src/adapters/local/local-run.js";
import { readEnvironment } from "../src/app/index.js";
import { PermanentFailure } from "../src/dispatch/settlement.js";
import { openPage, showView } from "../test/support/browser/admin-page.js";
import { startBrowser } from "../test/support/browser/start-browser.js";

const token = "alice:only-for-screenshots";
const minute = 60_000;
const images = new URL("../docs/images/", import.meta.url);

const started = await startBrowser();
if (typeof started === "string") throw new Error(started);
const { browser, stop } = started;

const isBroken = true;
const run = await startLocalRun(
  {
    database: "sqlite::memory:",
    admin: { tokens: token },
    inbox: { deadInPartition: "block" },
    handlers: ({ outbox }) => ({
      "payment.received": async ({ messageId, payload }) => {
        if (isBroken && Number(messageId.slice(4)) % 7 === 0)
          throw new PermanentFailure(`HTTP 503 from the mail service for request ${messageId}`);
        await outbox.enqueue({ topic: "receipt.send", payload, correlationId: messageId });
      },
      "invoice.finalised": () => {
        throw new PermanentFailure("no customer has the number 4711");
      },
    }),
    publishers: { "receipt.send": () => {} },
  },
  {
    environment: await readEnvironment({ PORT: "0", ONCEBOX_LOG_LEVEL: "silent" }),
    dispatchEveryMs: 100,
  },
);
