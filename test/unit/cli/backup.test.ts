import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { exitCodes } from "../../../src/cli/command.js";
import { runCli } from "../../../src/cli/run.js";
import { cli } from "../../support/cli.js";

let folder: string;
let file: string;
let to: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-cli-backup-"));
  file = join(folder, "app.db");
  to = join(folder, "backups");
  await cli("migrate", "--database", `sqlite:${file}`);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe("oncebox backup", () => {
  it("ADD-07 MSG-11 backs up the database and prints where, also as JSON", async () => {
    const { code, out } = await cli("backup", "--to", to, "--database", `sqlite:${file}`);
    expect(code).toBe(exitCodes.ok);
    const [name] = await readdir(to);
    expect(out).toMatch(/^sqlite:.*app\.db → .*\(\d+ bytes, checked\)$/);
    expect(out).toContain(join(to, name!));
    const json = await cli("backup", file, "--to", to, "--json");
    expect(JSON.parse(json.out)).toMatchObject({
      made: [{ database: `sqlite:${file}`, deleted: [] }],
      failed: [],
    });
  });

  it("ADD-07 MSG-11 backs up separate files of inbox and outbox; one that is missing fails and does not stop the other", async () => {
    const outbox = join(folder, "outbox.db");
    await cli("migrate", "--database", `sqlite:${outbox}`);
    expect((await cli("backup", file, outbox, "--to", to)).code).toBe(exitCodes.ok);
    expect((await readdir(to)).map((name) => name.split(".")[0]).sort()).toEqual(["app", "outbox"]);
    await rm(outbox);
    const { code, out, err } = await cli("backup", outbox, file, "--to", to);
    expect(code).toBe(exitCodes.failed);
    expect(out).toContain(`sqlite:${file} → `);
    expect(err).toBe(`sqlite:${outbox} was not backed up. There is no file ${outbox} to back up.`);
  });

  it("ADD-07 MSG-11 backs up the files of all tenants, each once, and names those on a server", async () => {
    const app = join(folder, "app.mjs");
    const tenantsIndex = new URL("../../../src/app/tenants.ts", import.meta.url).href;
    const tenant = (id: string, database: string, more = "") =>
      `{ id: "${id}", database: ${JSON.stringify(database)}${more} }`;
    const list = [
      tenant("a", `sqlite:${file}`),
      tenant("b", `sqlite:${join(folder, "b.db")}`),
      tenant("b2", `sqlite:${join(folder, "b.db")}`, ', inbox: "Inbox2", outbox: "Outbox2"'),
      tenant("c", "postgres://u:hunter2@h/d"),
    ];
    await cli("migrate", "--database", `sqlite:${join(folder, "b.db")}`);
    await writeFile(
      app,
      `import { defineApp } from ${JSON.stringify(new URL("../../../src/index.ts", import.meta.url).href)};
import { multiTenant } from ${JSON.stringify(tenantsIndex)};
import { tenantsFromConfiguration } from ${JSON.stringify(tenantsIndex)};
export default defineApp({ tenants: multiTenant({ discover: tenantsFromConfiguration([${list.join(", ")}]) }) });
`,
    );
    const { code, out, err } = await cli("backup", "--to", to, "--app", app);
    expect(err).toBe(
      "Only SQLite files are backed up here. postgres:h/d is on PostgreSQL: use pg_dump, or the server's base back-ups and WAL archive.",
    );
    expect(code).toBe(exitCodes.ok);
    expect(out.split("\n")).toHaveLength(2);
    expect((await readdir(to)).map((name) => name.split(".")[0]).sort()).toEqual(["app", "b"]);
  });

  it.each([
    ["postgres://u:hunter2@h/d", /Only SQLite files.*postgres:h\/d is on PostgreSQL: use pg_dump/],
    ["mssql://u:hunter2@h/d", /Only SQLite files.*is on SQL Server: use BACKUP DATABASE/],
    ["sqlite::memory:", /has no file that could be backed up/],
  ])("ADD-07 MSG-11 %s is refused with what to use instead", async (database, words) => {
    const { code, err } = await cli("backup", "--to", to, "--database", database);
    expect(code).toBe(exitCodes.usage);
    expect(err).toMatch(words);
    expect(err).not.toContain("hunter2");
    expect(existsSync(to)).toBe(false);
  });

  it("ADD-07 refuses a wrong command line", async () => {
    const wrong = async (...args: string[]) => {
      const { code, err } = await cli("backup", ...args);
      expect(code).toBe(exitCodes.usage);
      return err;
    };
    expect(await wrong(file)).toContain("needs --to DIR");
    for (const keep of ["7", "0d", "-1d", "1w", "d", "1.5h"])
      expect(await wrong(file, "--to", to, `--keep=${keep}`)).toContain("such as 90s, 15m, 1h or 7d");
    expect(await wrong(file, "--to", to, "--every", "x")).toContain("--every must be");
    expect(await wrong(file, "--to", to, "--every", "30d")).toContain("everyMs must be at most");
    expect(await wrong(file, "--to", to, "--database", "sqlite:x.db")).toContain("not both");
    expect(await wrong(join(folder, "none.db"), "--to", to)).toContain("There is no file");
    expect(existsSync(to)).toBe(false);
  });

  it("MSG-21 --every stays and makes back-ups until it is stopped; --keep deletes the older ones", async () => {
    const stop = new AbortController();
    const lines: string[] = [];
    const running = runCli(["backup", file, "--to", to, "--every", "1s", "--keep", "1s"], {
      env: {},
      isInteractive: false,
      out: (line) => {
        lines.push(line);
        if (lines.length === 3) stop.abort();
      },
      err: (line) => void lines.push(line),
      signal: stop.signal,
    });
    expect(await running).toBe(exitCodes.ok);
    const written = lines.map((line) => JSON.parse(line) as { message: string; deleted: number });
    expect(written.map(({ message }) => message)).toEqual(Array(3).fill("back-up made"));
    expect((await readdir(to)).length).toBe(3 - written.reduce((sum, { deleted }) => sum + deleted, 0));
  });
});

describe("oncebox restore", () => {
  it("ADD-07 MSG-21 restores, says where the old file is, and warns where its use could not be seen", async () => {
    await cli("backup", file, "--to", to);
    const from = join(to, (await readdir(to))[0]!);
    const other = join(folder, "other.db");
    expect(await cli("restore", "--from", from, "--to", other)).toEqual({
      code: exitCodes.ok,
      out: expect.stringMatching(/^\S+other\.db is restored from \S+ \(\d+ bytes, checked\)\.$/),
      err: "",
    });
    const refused = await cli("restore", "--from", from, "--to", other);
    expect(refused).toMatchObject({ code: exitCodes.failed, err: expect.stringContaining("--force") });
    await writeFile(other, (await readFile(other)).fill(1, 0, 4096));
    const forced = await cli("restore", "--from", from, "--to", other, "--force", "--json");
    expect(forced.err).toMatch(/too damaged to tell whether a process used it/);
    const { replaced } = JSON.parse(forced.out) as { replaced: string };
    expect(existsSync(replaced)).toBe(true);
    expect((await cli("status", "--database", `sqlite:${other}`)).code).toBe(exitCodes.ok);
    expect((await cli("restore", "--from", from)).code).toBe(exitCodes.usage);
  });
});
