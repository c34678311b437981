import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { codeBlocks, fromSources, root } from "../../support/markdown.js";
import { typeErrors } from "../../support/type-check.js";

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
  "docs/webhooks.md",
];

/** What a guide's programs take from the app around them. */
const given: Readonly<Record<string, string>> = {
  "docs/webhooks.md": `declare const request: Request;
declare const readFromVault: (name: string) => Promise<string>;
`,
};

it("the programs in the guides to handlers, ordering, operations, messaging, patterns, the inbox service, the diagnostics API, consumers, telemetry, frameworks and webhooks type-check, with what the package exports", async () => {
  const folder = await mkdtemp(join(root, "node_modules/.oncebox-docs-")); // to find the packages
  try {
    const programs = documents.flatMap((name) =>
      codeBlocks(name, "ts").map((program) => `${program}${given[name] ?? ""}export {};\n`),
    );
    expect(programs.length).toBeGreaterThan(8);
    for (const [index, program] of programs.entries())
      await writeFile(join(folder, `program${index}.mts`), fromSources(program));
    expect(await typeErrors(folder)).toBe("");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
