import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../..", import.meta.url));

/** The TypeScript blocks of a guide, importing the sources instead of the package. */
async function programs(guide: string): Promise<readonly string[]> {
  const manifest = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    exports: Record<string, { default: string }>;
  };
  const sourceOf = (name: string): string => {
    const entry = manifest.exports[name === "oncebox" ? "." : name.replace("oncebox", ".")];
    if (entry === undefined) throw new Error(`${guide} imports ${name}, which the package does not export.`);
    return join(root, entry.default.replace("./dist/", "src/").replace(/\.js$/, ".ts"));
  };
  const text = await readFile(join(root, guide), "utf8");
  return [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) =>
    code!.replace(/"(oncebox[^"]*)"/g, (_, name: string) => JSON.stringify(sourceOf(name))),
  );
}

it("the programs in the guides to middleware and publishers type-check, with what the package exports", async () => {
  const folder = await mkdtemp(join(root, "node_modules/.oncebox-guides-")); // to find the packages
  try {
    const all = [...(await programs("docs/middleware.md")), ...(await programs("docs/publishers.md"))];
    expect(all.length).toBeGreaterThan(7);
    for (const [index, code] of all.entries()) await writeFile(join(folder, `program${index}.mts`), code);
    const config = {
      extends: join(root, "tsconfig.json"),
      compilerOptions: { allowImportingTsExtensions: true, typeRoots: [join(root, "node_modules/@types")] },
      include: [join(folder, "*.mts")],
      exclude: [],
    };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    const { stdout } = await run(process.execPath, [
      join(root, "node_modules/typescript/bin/tsc"),
      "-p",
      folder,
    ]).catch((error: { stdout: string }) => error);
    expect(stdout).toBe("");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
