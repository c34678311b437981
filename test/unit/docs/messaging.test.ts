import { expect, it } from "vitest";
import { printedBy, programBehind } from "../../support/run-programs.js";

it("MSG-01 MSG-02 MSG-05 docs/messaging.md begins with a program that sends, responds and handles each message once", async () => {
  const program = programBehind("## Declare, send, receive", "docs/messaging.md");
  const print = `
const { counts } = await orders.outboxStats();
const { size } = await inventory.inboxStats();
console.log(JSON.stringify({ reserved, sent: counts.Sent, handled: size }));
`;
  expect(await printedBy({ "program.mts": program + print })).toEqual({ reserved: 1, sent: 2, handled: 3 });
});
