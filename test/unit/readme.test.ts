import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

/** The first TypeScript block of the README, importing the sources instead of the package. */
async function smallestProgram(): Promise<string> {
  const readme = await readFile(join(root, "README.md"), "utf8");
  const [, program] = /## The smallest complete program\n\n```ts\n([\s\S]*?)```/.exec(readme)!;
  return program!
    .replace('"oncebox"', JSON.stringify(join(root, "src/index.ts")))
    .replace('"oncebox/sqlite"', JSON.stringify(join(root, "src/sql/sqlite/index.ts")));
}

describe("README", () => {
  it("has exactly two command lines that set everything up, on its first screen", async () => {
    const lines = (await readFile(join(root, "README.md"), "utf8")).split("\n");
    const commands = lines.filter((line) => line.startsWith("    npm install"));
    expect(commands).toEqual(["    npm install && npm start", "    npm install && npm test"]);
    expect(lines.slice(0, 25)).toEqual(expect.arrayContaining(commands));
  });

  it("has a smallest program that type-checks and does what it says", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-readme-"));
    try {
      const file = join(folder, "program.mts");
      await writeFile(
        file,
        `${await smallestProgram()}\nconsole.log(JSON.stringify({ outcome, result }));\n`,
      );
      const config = {
        extends: join(root, "tsconfig.json"),
        compilerOptions: { allowImportingTsExtensions: true, typeRoots: [join(root, "node_modules/@types")] },
        include: [file],
      };
      await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
      await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", folder]);
      const { stdout } = await run(
        process.execPath,
        ["--no-warnings", "--import", join(root, "node_modules/tsx/dist/loader.mjs"), file],
        { cwd: folder },
      );
      expect(JSON.parse(stdout)).toMatchObject({
        outcome: "enqueued",
        result: { acked: 1, stopped: "drained" },
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
