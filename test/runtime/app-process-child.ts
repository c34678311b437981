import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readEnvironment } from "../../src/config/environment.js";
import { createApp, defineApp } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

/** An app in a process of its own, as a user starts it. Its database and its secret are in the environment. */
const app = await createApp(
  defineApp({
    logger: false,
    sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "STRIPE_SECRET" } } },
    handlers: {
      async "*"({ messageId }) {
        console.log(`begins ${messageId}`);
        await new Promise((resolve) => setTimeout(resolve, 500));
        console.log(`ends ${messageId}`);
      },
    },
  }),
);
await app.migrate();
await app.start({ stopOnSignals: true, pollMs: 3_600_000, idlePollMs: 3_600_000 });
if (process.argv.includes("two")) {
  const idle = await createApp(
    defineApp({ database: () => openSqlite({ file: ":memory:" }), logger: false }),
    {
      environment: await readEnvironment({}),
    },
  );
  await idle.migrate();
  await idle.start({ stopOnSignals: true });
}
const server = createServer((incoming, outgoing) => app.listener(incoming, outgoing));
server.listen(0, "127.0.0.1", () => console.log(`port ${(server.address() as AddressInfo).port}`));
if (process.argv.includes("listens"))
  process.on("SIGTERM", () => {
    console.log("heard");
    setTimeout(() => process.exit(7), 2_000); // later than the app stops
  });
