/** What a project loads of the package, by module. */
const used = {
  oncebox: ["createDispatcher", "createInbox", "createOutbox", "migrate", "permanentFailure", "timeBudget"],
  "oncebox/sqlite": ["openSqlite"],
  "oncebox/webhooks": ["createWebhookRoute", "signWebhook"],
  "oncebox/webhooks/stripe": ["stripe"],
} as const;

const loading = (one: (names: string, module: string) => string): string =>
  Object.entries(used)
    .map(([module, names]) => one(names.join(", "), module))
    .join("\n");

export const byImport = loading((names, module) => `import { ${names} } from "${module}";`);
export const byRequire = loading((names, module) => `const { ${names} } = require("${module}");`);

/**
 * The function `endToEnd`, in JavaScript that also type-checks: on SQLite, a signed webhook arrives twice, its handler returns
 * a message in the transaction, and that one is handled as well. A second webhook fails for good.
 */
export const endToEnd = `
async function endToEnd() {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const inbox = createInbox(db, { logger: false });
  const outbox = createOutbox(db, { logger: false });
  const secrets = ["whsec_0123456789abcdef"];
  const route = createWebhookRoute({ inbox, sources: { shop: { scheme: stripe, secrets } }, logger: false });
  const outcomes = [];
  for (const [id, type] of [["1", "order.placed"], ["1", "order.placed"], ["2", "order.lost"]]) {
    const body = JSON.stringify({ id, type });
    const signed = signWebhook(stripe, { url: "http://localhost/webhooks/shop", body, secrets });
    const response = await route(new Request(signed.url, signed));
    outcomes.push(response.status + " " + JSON.parse(await response.text()).outcome);
  }
  let published = "";
  const received = createDispatcher({
    logger: false,
    outbox,
    handlers: {
      "shop.order.placed": ({ messageId }) => ({ topic: "order.shipped", payload: messageId }),
      "shop.order.lost": () => permanentFailure("gone"),
    },
  });
  const sent = createDispatcher({
    logger: false,
    handlers: { "order.shipped": ({ payload }) => void (published += payload) },
  });
  const { acked, failed } = await received.run(inbox, timeBudget(60_000));
  await sent.run(outbox, timeBudget(60_000));
  await db.close();
  return JSON.stringify({ outcomes, acked, failed, published });
}`;

/** The same in TypeScript: a type argument says which queue a dispatcher is for. */
export const typedEndToEnd = `
import type { InboxMessage, SqlExecutor } from "oncebox";
${endToEnd.replace("received = createDispatcher", "received = createDispatcher<InboxMessage, SqlExecutor>")}`;

/** What `endToEnd` returns. */
export const ended = JSON.stringify({
  outcomes: ["200 enqueued", "200 duplicate", "200 enqueued"],
  acked: 1,
  failed: 1,
  published: "1",
});

/** A program that prints it. */
export const printing = (load: string): string => `${load}\n${endToEnd}\nendToEnd().then(console.log);\n`;
