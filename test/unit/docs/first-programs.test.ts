import { describe, expect, it } from "vitest";
import { printedBy, programBehind } from "../../support/run-programs.js";

describe("README", () => {
  it("has a smallest program of at most 15 lines that type-checks, receives a webhook, handles it and publishes its message", async () => {
    const use = `
import { createApp } from "oncebox";
import { signWebhook } from "oncebox/webhooks";
import { stripe } from "oncebox/webhooks/stripe";
import definition from "./app.mjs";

const secret = "whsec_test_secret_of_tests";
process.env.ONCEBOX_DATABASE_URL = "sqlite:app.db";
process.env.STRIPE_WEBHOOK_SECRET = secret;
process.env.ONCEBOX_LOG_LEVEL = "error";
const app = await createApp(definition);
await app.migrate();
const { url, ...signed } = signWebhook(stripe, {
  url: "http://localhost/webhooks/stripe",
  body: '{"id":"evt_1","type":"invoice.paid"}',
  secrets: secret,
});
const response = await app.fetch(new Request(url, signed));
const { inbox, outbox, more } = await app.dispatch();
await app.close();
console.log(JSON.stringify({ response: await response.json(), inbox, outbox, more }));
`;
    const program = programBehind("# oncebox", "README.md");
    expect(program.trim().split("\n").length).toBeLessThanOrEqual(15);
    expect(await printedBy({ "app.mts": program, "use.mts": use })).toMatchObject({
      response: { outcome: "enqueued", messageId: "evt_1" },
      inbox: { acked: 1, stopped: "drained" },
      outbox: { acked: 1, stopped: "drained" },
      more: false,
    });
  });
});

describe("the guide to handlers", () => {
  it("has a program without defineApp that type-checks and does what it says", async () => {
    const program = programBehind("## Without `defineApp`", "docs/handlers.md");
    const print = "console.log(JSON.stringify({ outcome, result }));\n";
    expect(await printedBy({ "program.mts": program + print })).toMatchObject({
      outcome: "enqueued",
      result: { acked: 1, stopped: "drained" },
    });
  });
});

describe("the guide to webhooks", () => {
  it("begins with a program that type-checks and stores a webhook", async () => {
    const before = `import { signWebhook } from "oncebox/webhooks";
import { stripe } from "oncebox/webhooks/stripe";
const readFromVault = async (name: string) => \`secret of \${name}\`;
const { url, ...signed } = signWebhook(stripe, {
  url: "http://localhost/webhooks/stripe",
  body: '{"id":"evt_1","type":"ping"}',
  secrets: "whsec_old_0123456789",
});
const request = new Request(url, signed);
`;
    const program = programBehind("# Webhooks", "docs/webhooks.md");
    const after = "console.log(JSON.stringify(await response.json()));\n";
    expect(await printedBy({ "program.mts": before + program + after })).toEqual({
      outcome: "enqueued",
      messageId: "evt_1",
    });
  });
});

it("MSG-01 MSG-02 MSG-05 docs/messaging.md begins with a program that sends, responds and handles each message once", async () => {
  const program = programBehind("## Declare, send, receive", "docs/messaging.md");
  const print = `
const { counts } = await orders.outboxStats();
const { size } = await inventory.inboxStats();
console.log(JSON.stringify({ reserved, sent: counts.Sent, handled: size }));
`;
  expect(await printedBy({ "program.mts": program + print })).toEqual({ reserved: 1, sent: 2, handled: 3 });
});
