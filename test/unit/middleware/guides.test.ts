import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { codeBlocks, fromSources, root } from "../../support/markdown.js";
import { typeErrors } from "../../support/type-check.js";

it("the programs in the guides to middleware and publishers type-check, with what the package exports", async () => {
  const folder = await mkdtemp(join(root, "node_modules/.oncebox-guides-")); // to find the packages
  try {
    const programs = ["docs/middleware.md", "docs/publishers.md"].flatMap((guide) => codeBlocks(guide, "ts"));
    expect(programs.length).toBeGreaterThan(7);
    for (const [index, program] of programs.entries())
      await writeFile(join(folder, `program${index}.mts`), fromSources(program));
    expect(await typeErrors(folder)).toBe("");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
