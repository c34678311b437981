import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PackedPackage, packedPackage } from "../infra/packed.js";

const run = promisify(execFile);
const npm = (args: string[], cwd: string) => run("npm", args, { cwd, shell: process.platform === "win32" });

/** The package as a user gets it: packed, installed into an empty project, with no driver beside it. */
describe("the packed package", () => {
  let project: string;
  let packed: PackedPackage;

  beforeAll(async () => {
    project = await mkdtemp(join(tmpdir(), "oncebox-consumer-"));
    packed = await packedPackage();
    await writeFile(
      join(project, "package.json"),
      JSON.stringify({ name: "consumer", private: true, type: "module" }),
    );
    await npm(["install", "--prefer-offline", "--no-audit", "--no-fund", packed.tarball], project);
  });
  afterAll(async () => {
    await rm(project, { recursive: true, force: true });
    await packed?.remove();
  });

  const evaluate = async (code: string): Promise<unknown> => {
    const { stdout } = await run(process.execPath, ["--no-warnings", "--input-type=module", "-e", code], {
      cwd: project,
    });
    return JSON.parse(stdout);
  };

  it("depends on zod and nothing else", async () => {
    const installed = (await readdir(join(project, "node_modules"))).filter((name) => !name.startsWith("."));
    expect(installed).toEqual(["oncebox", "zod"]);
  });

  it("imports without any driver, and names the missing one when a database is opened", async () => {
    const answers = await evaluate(`
      await import("oncebox");
      const { openPostgres } = await import("oncebox/postgres");
      const { openSqlServer } = await import("oncebox/sqlserver");
      const answer = (open) => {
        try { open(); return "no error"; } catch (error) { return error.code + " " + error.message; }
      };
      console.log(JSON.stringify([
        answer(() => openPostgres({ url: "postgres://localhost/x" })),
        answer(() => openSqlServer({ url: "mssql://sa:x@localhost/x" })),
      ]));
    `);
    expect(answers).toEqual([
      expect.stringMatching(/^ONCEBOX_DRIVER_MISSING .*npm install pg/),
      expect.stringMatching(/^ONCEBOX_DRIVER_MISSING .*npm install mssql/),
    ]);
  });

  it("SVC-10 imports the inbox stores without any package, and names the missing one when the store is made", async () => {
    const answers = await evaluate(`
      const { openInboxStore } = await import("oncebox/inbox-store");
      const answer = (settings) => openInboxStore(settings).then(() => "made", (error) => error.message);
      console.log(JSON.stringify([
        await answer({ kind: "redis", url: "redis://localhost" }),
        await answer({ kind: "mongodb", url: "mongodb://localhost/x" }),
      ]));
    `);
    expect(answers).toEqual([
      expect.stringMatching(/npm install ioredis$/),
      expect.stringMatching(/npm install mongodb$/),
    ]);
  });

  it("runs on Node's own SQLite where there is one, and names the package to install where there is not", async () => {
    const answer = await evaluate(`
      import { createInbox, migrate } from "oncebox";
      import { openSqlite } from "oncebox/sqlite";
      try {
        const db = openSqlite({ file: ":memory:" });
        await migrate(db);
        console.log(JSON.stringify(await createInbox(db).receive({ source: "s", messageId: "1", topic: "t", payload: "" })));
      } catch (error) { console.log(JSON.stringify(error.code)); }
    `);
    const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
    const hasSqlite = major > 22 || (major === 22 && minor >= 13);
    expect(answer).toBe(hasSqlite ? "enqueued" : "ONCEBOX_DRIVER_MISSING");
  });
});
