import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { codeBlocks, fromSources, root } from "../../support/markdown.js";
import { typeErrors } from "../../support/type-check.js";

/** The blocks of the guide to webhooks that show sources of providers, with what they take for granted. */
const webhookSources = (): string => {
  const shown = ["notionVerification", "dropboxSource", "decryptGraphContent"];
  const blocks = codeBlocks("docs/webhooks.md", "ts").filter((block) =>
    shown.some((one) => block.includes(one)),
  );
  expect(blocks).toHaveLength(shown.length);
  return [
    'import { createInbox } from "oncebox";',
    'import { openSqlite } from "oncebox/sqlite";',
    'import { createWebhookRoute } from "oncebox/webhooks";',
    "declare function readFromVault(name: string): Promise<string>;",
    "declare function syncFromCursor(account: string): Promise<void>;",
    "declare const clientState: string;",
    ...blocks,
    "export const sources = { notion: notionSource, dropbox: dropboxSource, graph: graphSource };",
    'export const route = createWebhookRoute({ inbox: createInbox(openSqlite({ file: ":memory:" })), sources });',
    "export const all = [handlers, graphHandlers];",
  ].join("\n");
};

const documents = [
  "docs/handlers.md",
  "docs/ordering.md",
  "docs/operations.md",
  "docs/messaging.md",
  "docs/patterns.md",
  "docs/inbox-service.md",
  "docs/diagnostics.md",
  "docs/consume-once.md",
  "docs/telemetry.md",
  "docs/frameworks.md",
];

it("the programs in the guides to handlers, ordering, operations, messaging, patterns, the inbox service, the diagnostics API, consumers, telemetry and frameworks type-check, with what the package exports", async () => {
  const folder = await mkdtemp(join(root, "node_modules/.oncebox-docs-")); // to find the packages
  try {
    const programs = [...documents.flatMap((name) => codeBlocks(name, "ts")), webhookSources()];
    expect(programs.length).toBeGreaterThan(8);
    for (const [index, program] of programs.entries())
      await writeFile(join(folder, `program${index}.mts`), fromSources(program));
    expect(await typeErrors(folder)).toBe("");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
