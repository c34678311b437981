import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

const sources: Readonly<Record<string, string>> = {
  oncebox: "src/index.ts",
  "oncebox/sqlite": "src/sql/sqlite/index.ts",
  "oncebox/webhooks": "src/webhooks/index.ts",
};

/** The first TypeScript block behind a line of a document. */
async function programBehind(line: string, document: string): Promise<string> {
  const text = await readFile(join(root, document), "utf8");
  return /```ts\n([\s\S]*?)```/.exec(text.slice(text.indexOf(line)))![1]!;
}

/** What it prints, in an empty folder, once the compiler has nothing against it. It imports the sources instead of the package. */
async function printedBy(program: string): Promise<unknown> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-readme-"));
  try {
    const file = join(folder, "program.mts");
    const fromSources = program.replace(/(?<= from )"(oncebox[^"]*)"/g, (_, name: string) =>
      JSON.stringify(join(root, sources[name]!)),
    );
    await writeFile(file, fromSources);
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
    return JSON.parse(stdout.trimEnd().split("\n").at(-1)!);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe("README", () => {
  it("has exactly two command lines that set everything up, on its first screen", async () => {
    const lines = (await readFile(join(root, "README.md"), "utf8")).split("\n");
    const commands = lines.filter((line) => line.startsWith("    npm install"));
    expect(commands).toEqual(["    npm install && npm start", "    npm install && npm test"]);
    expect(lines.slice(0, 25)).toEqual(expect.arrayContaining(commands));
  });

  it("has a smallest program that type-checks and does what it says", async () => {
    const program = await programBehind("## The smallest complete program", "README.md");
    expect(await printedBy(`${program}\nconsole.log(JSON.stringify({ outcome, result }));\n`)).toMatchObject({
      outcome: "enqueued",
      result: { acked: 1, stopped: "drained" },
    });
  });
});

describe("the guide to webhooks", () => {
  it("begins with a program that type-checks and stores a webhook", async () => {
    const before = `import { signWebhook } from "oncebox/webhooks";
const readFromVault = async (name: string) => \`secret of \${name}\`;
const { url, ...signed } = signWebhook("stripe", {
  url: "http://localhost/webhooks/stripe",
  body: '{"id":"evt_1","type":"ping"}',
  secrets: "whsec_old",
});
const request = new Request(url, signed);
`;
    const program = await programBehind("# Webhooks", "docs/webhooks.md");
    const after = "console.log(JSON.stringify(await response.json()));\n";
    expect(await printedBy(before + program + after)).toEqual({ outcome: "enqueued", messageId: "evt_1" });
  });
});
