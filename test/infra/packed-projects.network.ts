import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { byImport, byRequire, ended, endToEnd, printing, typedEndToEnd } from "./message-program.js";
import { npm, type PackedPackage, packedPackage, run } from "./packed.js";

/** Node 20 has no SQLite of its own. */
const sqlite = "@photostructure/sqlite@1";
const exporting = `${byImport}\n${typedEndToEnd.replace("async function", "export async function")}\n`;
const manifest = (more: object = {}) => JSON.stringify({ name: "user-project", private: true, ...more });

describe("projects that install the packed package", () => {
  let packed: PackedPackage;
  let parent: string;

  beforeAll(async () => {
    packed = await packedPackage();
    parent = await mkdtemp(join(tmpdir(), "oncebox-projects-"));
  }, 180_000);
  afterAll(async () => {
    await rm(parent, { recursive: true, force: true });
    await packed?.remove();
  });

  /** A folder with these files, and the package installed as a user installs it. */
  async function project(name: string, files: Readonly<Record<string, string>>, packages: readonly string[]) {
    const folder = join(parent, name);
    for (const [file, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, file)), { recursive: true });
      await writeFile(join(folder, file), text);
    }
    await npm(["install", packed.tarball, ...packages], folder);
    return {
      folder,
      node: async (file: string) => (await run(process.execPath, [file], { cwd: folder })).stdout.trim(),
      bin: (command: string, ...args: string[]) =>
        run(join(folder, "node_modules/.bin", command), args, { cwd: folder, shell: isWindows }).catch(
          ({ stdout, stderr }) => ({ stdout: `failed: ${stdout}${stderr}`, stderr }),
        ),
    };
  }

  it("ECMAScript modules", async () => {
    const files = { "package.json": manifest({ type: "module" }), "app.js": printing(byImport) };
    const { node } = await project("esm", files, [sqlite]);
    expect(await node("app.js")).toBe(ended);
  });

  it("CommonJS", async () => {
    const files = { "package.json": manifest(), "app.js": printing(byRequire) };
    const { node } = await project("commonjs", files, [sqlite]);
    expect(await node("app.js")).toBe(ended);
  });

  it("Jest 29, with JavaScript that requires it and TypeScript that imports it", async () => {
    const expectation = `test("a message", async () => expect(await endToEnd()).toBe(${JSON.stringify(ended)}));`;
    const files = {
      "package.json": manifest(),
      "jest.config.js": `module.exports = { transform: { "\\\\.ts$": "ts-jest" } };`,
      "tsconfig.json": JSON.stringify({ compilerOptions: { ...strict, module: "commonjs" } }),
      "plain.test.js": `${byRequire}\n${endToEnd}\n${expectation}`,
      "typed.test.ts": `${byImport}\n${typedEndToEnd}\n${expectation}`,
    };
    const packages = ["jest@29", "ts-jest@29", "typescript@5", "@types/jest@29", "@types/node@20", sqlite];
    const { bin } = await project("jest", files, packages);
    const { stdout, stderr } = await bin("jest");
    expect(stdout).toBe("");
    expect(stderr).toContain("2 passed");
    expect(stderr).not.toContain("did not exit");
  });

  it.each(["commonjs", "module"])("TypeScript with module node16, type %s", async (type) => {
    const files = {
      "package.json": manifest({ type }),
      "tsconfig.json": JSON.stringify({ compilerOptions: { ...strict, module: "node16" } }),
      "message.ts": exporting,
      "app.ts": `import { endToEnd } from "./message.js";\nendToEnd().then(console.log);\n`,
    };
    const { bin, node } = await project(`node16-${type}`, files, ["typescript@5", "@types/node@20", sqlite]);
    expect((await bin("tsc", "-p", ".")).stdout).toBe("");
    expect(await node("app.js")).toBe(ended);
  });

  it("a bundle by esbuild, as CommonJS", async () => {
    const files = { "package.json": manifest(), "app.js": printing(byImport) };
    const { bin, folder, node } = await project("esbuild", files, ["esbuild@0.24", sqlite]);
    const external = "--external:@photostructure/sqlite";
    await bin("esbuild", "app.js", "--bundle", "--platform=node", "--format=cjs", external, "--outdir=out");
    expect(await readFile(join(folder, "out/app.js"), "utf8")).not.toContain('require("oncebox');
    expect(await node("out/app.js")).toBe(ended);
  });

  it("beside mssql 11, esbuild 0.24 and vitest 3, of which npm refuses none", async () => {
    const files = { "package.json": manifest({ type: "module" }), "app.js": printing(byImport) };
    const older = ["mssql@11", "esbuild@0.24", "vitest@3"];
    const { folder, node } = await project("older", files, [...older, sqlite]);
    expect(await node("app.js")).toBe(ended);
    for (const one of older) {
      const [name, version] = one.split("@") as [string, string];
      const installed = await readFile(join(folder, "node_modules", name, "package.json"), "utf8");
      expect(JSON.parse(installed).version).toMatch(new RegExp(`^${version.replace(".", "\\.")}\\.`));
    }
  });
});

const isWindows = process.platform === "win32";
/** No `skipLibCheck`: a user's compiler reads the package's types too. */
const strict = { strict: true, target: "es2022", esModuleInterop: true };
