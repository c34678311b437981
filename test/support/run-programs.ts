import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { codeBlocks, fromSources, root } from "./markdown.js";
import { typeErrors } from "./type-check.js";

const run = promisify(execFile);

/** The first program behind a line of a document. */
export const programBehind = (line: string, document: string, language = "ts"): string =>
  codeBlocks(document, language, line)[0]!;

/** What the last of the programs prints in its last line, in an empty folder, once the compiler has nothing against them. */
export async function printedBy(programs: Readonly<Record<string, string>>): Promise<unknown> {
  const folder = await mkdtemp(join(root, "node_modules/.oncebox-programs-")); // to find the packages
  try {
    await writeFile(join(folder, "package.json"), '{ "type": "module" }');
    for (const [name, program] of Object.entries(programs))
      await writeFile(join(folder, name), fromSources(program));
    expect(await typeErrors(folder)).toBe("");
    const last = join(folder, Object.keys(programs).at(-1)!);
    const { stdout } = await run(
      process.execPath,
      ["--no-warnings", "--import", join(root, "node_modules/tsx/dist/loader.mjs"), last],
      { cwd: folder },
    );
    return JSON.parse(stdout.trimEnd().split("\n").at(-1)!);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
