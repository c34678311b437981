import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, watch } from "node:fs";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadSqlite } from "../../src/sql/sqlite/client.js";
import { createBackup, openSqlite } from "../../src/sql/sqlite/index.js";
import { damageFile } from "../support/damage-file.js";
import { runChild } from "../support/run-child.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const node = (file: string, ...args: string[]) => [
  "--no-warnings",
  "--import",
  "tsx",
  join(root, file),
  ...args,
];

/** The command line in a process of its own. */
async function oncebox(...args: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, node("src/cli/main.ts", ...args), { cwd: root });
  const output = { out: "", err: "" };
  child.stdout.on("data", (data) => {
    output.out += data;
  });
  child.stderr.on("data", (data) => {
    output.err += data;
  });
  const [code] = (await once(child, "close")) as [number | null];
  return { code, ...output };
}

/** A process that commits pairs of messages until it is stopped. */
function startWriter(file: string) {
  const child = spawn(process.execPath, node("test/runtime/sqlite-write-child.ts", file), {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let last = -1;
  let told = (): void => {};
  createInterface({ input: child.stdout }).on("line", (line) => {
    last = Number(line);
    told();
  });
  const exited = once(child, "exit");
  return {
    /** The number of the last pair that is known to be committed. */
    committed: () => last,
    async reaches(n: number): Promise<void> {
      while (last < n)
        await Promise.race([
          new Promise<void>((resolve) => {
            told = resolve;
          }),
          exited.then(() => {
            throw new Error("The writer has ended.");
          }),
        ]);
    },
    async stop(): Promise<void> {
      child.stdin.end();
      expect(await exited).toEqual([0, null]);
    },
  };
}

/** The payloads of a copy's outbox, from a copy that is sound. */
async function contentOf(file: string): Promise<string[]> {
  const DatabaseSync = await loadSqlite();
  const copy = new DatabaseSync(file, { readOnly: true });
  expect(copy.prepare("pragma integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
  const rows = copy.prepare("select Payload from Outbox").all() as { Payload: string }[];
  copy.close();
  return rows.map(({ Payload }) => Payload);
}

const numbers = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const pairs = (n: number): string[] => numbers(n).flatMap((i) => [`${i} a`, `${i} b`]);
const sorted = (list: readonly string[]): string[] => [...list].sort();

describe("back-ups of SQLite files that processes use", () => {
  let folder: string;
  let file: string;
  let backups: string;
  const started: ChildProcess[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-backup-"));
    file = join(folder, "app.db");
    backups = join(folder, "backups");
  });
  afterEach(async () => {
    for (const child of started.splice(0)) child.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  });

  it("MSG-11 MSG-21 ADD-07 each back-up has all that was committed before it began, whole transactions only, while a process writes", async () => {
    const writer = startWriter(file);
    await writer.reaches(100);
    const backup = createBackup([openSqlite({ file })], { to: backups });
    let before = 0;
    for (let round = 0; round < 8; round++) {
      before = writer.committed();
      const { made, failed } = await backup.run();
      expect(failed).toEqual([]);
      const content = await contentOf(made[0]!.file);
      expect(sorted(content)).toEqual(sorted(pairs(content.length / 2)));
      expect(content.length / 2).toBeGreaterThan(before);
      await writer.reaches(before + 50);
    }
    const command = await oncebox("backup", "--to", backups, "--database", `sqlite:${file}`, "--json");
    expect(command.code).toBe(0);
    const [last] = (JSON.parse(command.out) as { made: { file: string }[] }).made;
    expect((await contentOf(last!.file)).length / 2).toBeGreaterThan(before);
    await writer.stop();
    expect((await readdir(backups)).filter((name) => !name.endsWith("Z.db"))).toEqual([]);
  });

  it("MSG-21 a back-up process that is killed leaves nothing under the name of a back-up that is not whole", async () => {
    const DatabaseSync = await loadSqlite();
    const large = new DatabaseSync(file);
    large.exec(
      "create table large as with recursive n(i) as (select 1 union all select i + 1 from n where i < 40000) select i, randomblob(2000) as bytes from n",
    );
    large.close();
    await mkdir(backups);
    const child = spawn(process.execPath, node("src/cli/main.ts", "backup", file, "--to", backups));
    started.push(child);
    const exited = once(child, "exit");
    const watcher = watch(backups);
    await Promise.race([once(watcher, "change"), exited]);
    child.kill("SIGKILL");
    await exited;
    watcher.close();
    const names = await readdir(backups);
    expect(names.length).toBeGreaterThan(0);
    for (const name of names.filter((one) => one.endsWith("Z.db"))) {
      const copy = new DatabaseSync(join(backups, name));
      expect(copy.prepare("select count(*) as n from large").all()).toEqual([{ n: 40_000 }]);
      copy.close();
    }
    expect((await oncebox("backup", file, "--to", backups)).code).toBe(0);
  });

  it("MSG-11 MSG-21 ADD-07 a damaged outbox is reported, restored from its back-up, and every message is processed exactly once", async () => {
    const inbox = join(folder, "inbox.db");
    const writer = startWriter(file);
    await writer.reaches(60);
    await writer.stop();
    const all = pairs(writer.committed() + 1);
    const send = (most: number) =>
      runChild<{ enqueued: string[]; done: string[] }>("sqlite-send-child.ts", file, inbox, String(most));
    expect((await send(40)).enqueued).toHaveLength(40);
    expect(await oncebox("backup", file, "--to", backups)).toMatchObject({ code: 0, err: "" });
    const [name] = await readdir(backups);
    const afterBackup = (await send(30)).enqueued;
    expect(afterBackup).toHaveLength(30);
    const processed = await runChild<string[]>("sqlite-drain-child.ts", inbox);

    await damageFile(file);
    const status = await oncebox("status", "--database", `sqlite:${file}`);
    expect(status).toMatchObject({ code: 1, err: expect.stringContaining(`${file} is damaged: `) });
    expect(status.err).toContain("oncebox restore --from BACKUP --to");
    const failed = await oncebox("backup", file, "--to", backups);
    expect(failed.code).toBe(1);
    expect(failed.err).toContain(`${file} is damaged: `);
    expect(await readdir(backups)).toEqual([name]);

    const from = join(backups, name!);
    expect(await oncebox("restore", "--from", from, "--to", file)).toMatchObject({ code: 1, out: "" });
    const restored = await oncebox("restore", "--from", from, "--to", file, "--force");
    expect(restored).toMatchObject({ code: 0, err: "" });
    expect(sorted(await contentOf(file))).toEqual(sorted(all));

    const again = await send(Number.POSITIVE_INFINITY);
    expect(sorted(again.done)).toEqual(sorted(afterBackup)); // acknowledged after the back-up: sent again
    expect(again.enqueued).toHaveLength(all.length - 70);
    processed.push(...(await runChild<string[]>("sqlite-drain-child.ts", inbox)));
    expect(processed).toHaveLength(all.length);
    expect(new Set(processed).size).toBe(all.length);
  });

  it("MSG-21 ADD-07 a database that a process has open is not replaced", async () => {
    const writer = startWriter(file);
    await writer.reaches(3);
    expect((await oncebox("backup", file, "--to", backups)).code).toBe(0);
    const [name] = await readdir(backups);
    const args = ["restore", "--from", join(backups, name!), "--to", file, "--force"];
    const refused = await oncebox(...args);
    expect(refused.code).toBe(1);
    expect(refused.err).toContain(`A process uses ${file}. Stop every process that has it open`);
    await writer.reaches(writer.committed() + 10); // it was not disturbed
    await writer.stop();
    expect((await oncebox(...args)).code).toBe(0);
    expect(existsSync(`${file}-wal`)).toBe(false);
    expect(sorted(await contentOf(file))).toEqual(sorted(await contentOf(join(backups, name!))));
  });
});
