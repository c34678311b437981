import { existsSync } from "node:fs";
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { copyDatabase, copyInto } from "../../src/sql/sqlite/backup/copy-database.js";
import { loadSqlite } from "../../src/sql/sqlite/client.js";
import { type BackupOptions, createBackup, openSqlite, restoreBackup } from "../../src/sql/sqlite/index.js";

const day = 24 * 3_600_000;
let folder: string;
let file: string;
let to: string;
let now: number;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-backup-unit-"));
  file = join(folder, "app.db");
  to = join(folder, "backups");
  now = Date.UTC(2030, 0, 31, 12, 30, 15, 7);
  await create(file, 1, 50);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Uses no prepared statement, which would keep the file open with the SQLite package for Node 20. */
async function create(path: string, value: number, rows = 1): Promise<void> {
  const handle = new (await loadSqlite())(path);
  handle.exec(
    `pragma journal_mode = wal; create table t (value, filler); with recursive n(i) as (select 1 union all select i + 1 from n where i < ${rows}) insert into t select ${value}, randomblob(900) from n`,
  );
  handle.close();
}

async function valueIn(path: string): Promise<unknown> {
  const handle = new (await loadSqlite())(path, { readOnly: true });
  const [row] = handle.prepare("select max(value) as value from t").all() as { value: unknown }[];
  handle.close();
  return row!.value;
}

const backupOf = (path = file, options: Partial<BackupOptions> = {}) =>
  createBackup([openSqlite({ file: path })], { to, clock: () => new Date(now), ...options });

async function made(path = file, options: Partial<BackupOptions> = {}) {
  const report = await backupOf(path, options).run();
  expect(report.failed).toEqual([]);
  return report.made[0]!;
}

/** Bytes that no page of a database begins with. */
async function damage(path: string, page: number): Promise<void> {
  const bytes = await readFile(path);
  await writeFile(path, bytes.fill(0xa5, (page - 1) * 4096, page * 4096));
}

describe("createBackup", () => {
  it("MSG-11 MSG-21 names a back-up after the database and the UTC time; it is one file with the whole content", async () => {
    const backup = await made();
    expect(backup).toMatchObject({ database: `sqlite:${file}`, deleted: [] });
    expect(await readdir(to)).toEqual([expect.stringMatching(/^app\.[0-9a-f]{8}\.20300131T123015007Z\.db$/)]);
    expect((await stat(backup.file)).size).toBe(backup.bytes);
    expect(await valueIn(backup.file)).toBe(1);
    expect(await readdir(to)).toHaveLength(1); // reading it needs no side files: it is not in WAL mode
  });

  it("MSG-21 deletes back-ups older than keepMs, 7 days by default, and logs it", async () => {
    const first = await made();
    now += 7 * day;
    const second = await made();
    expect(second.deleted).toEqual([]);
    now += 1;
    expect((await made()).deleted).toEqual([first.file]);
    expect(existsSync(first.file)).toBe(false);
    now += 1_000;
    expect((await made(file, { keepMs: 500 })).deleted).toHaveLength(2);
    expect(await readdir(to)).toHaveLength(1);
  });

  it("MSG-21 never deletes the newest back-up, even when the clock was set back", async () => {
    now += 365 * day;
    const newest = await made();
    now -= 365 * day;
    await made();
    now += 30 * day;
    await made();
    expect(existsSync(newest.file)).toBe(true);
  });

  it("MSG-21 never deletes a file that it did not make", async () => {
    const old = await made();
    const name = old.file.slice(to.length + 1);
    const others = [
      "notes.txt",
      "app.db",
      "app.20300131T123015007Z.db",
      `${name}.old`,
      `x${name}`,
      name.replace("app.", "other."),
      name.replace("20300131", "20301331"), // no month
      `${name}.partial`,
      `${name}.0123abcd.partial.txt`,
    ];
    for (const other of others) await writeFile(join(to, other), "mine");
    for (const other of others) await utimes(join(to, other), 0, 0);
    await mkdir(join(to, name.replace("0131", "0101")));
    await symlink(join(to, "notes.txt"), join(to, name.replace("0131", "0102")));
    now += 100 * day;
    expect((await made()).deleted).toEqual([old.file]);
    expect(await readdir(to)).toEqual(expect.arrayContaining(others));
    expect(await readdir(to)).toHaveLength(others.length + 3);
  });

  it("MSG-21 databases of the same name have back-ups of their own in one folder", async () => {
    const other = join(folder, "other");
    await mkdir(other);
    await create(join(other, "app.db"), 2);
    const first = await made();
    now += 100 * day;
    const { made: both } = await createBackup(
      [openSqlite({ file: join(other, "app.db") }), openSqlite({ file })],
      { to, clock: () => new Date(now) },
    ).run();
    expect(await Promise.all(both.map((one) => valueIn(one.file)))).toEqual([2, 1]);
    expect(both.map((one) => one.deleted)).toEqual([[], [first.file]]);
  });

  it("MSG-21 removes what a killed back-up left after an hour, not before: it may be running", async () => {
    const { file: whole } = await made();
    for (const [id, age] of [
      ["00000001", 2 * 3_600_000],
      ["00000002", 1_800_000],
    ] as const) {
      for (const ending of ["", "-journal"]) {
        const path = `${whole}.${id}.partial${ending}`;
        await writeFile(path, "half");
        await utimes(path, (Date.now() - age) / 1000, (Date.now() - age) / 1000);
      }
    }
    now += 1;
    await made();
    const partials = (await readdir(to)).filter((name) => name.includes("partial"));
    expect(partials).toEqual([
      expect.stringMatching(/00000002\.partial$/),
      expect.stringMatching(/00000002\.partial-journal$/),
    ]);
  });

  it.runIf(process.platform !== "win32")("MSG-21 a back-up has the file mode of its database", async () => {
    await chmod(file, 0o600);
    expect((await stat((await made()).file)).mode & 0o777).toBe(0o600);
  });

  it.each([
    [
      "a page of many",
      6,
      / is damaged: \*\*\* in database main \*\*\*; .*oncebox restore --from BACKUP --to /,
    ],
    ["the first page", 1, / is damaged: file is not a database\. .*oncebox restore --from BACKUP --to /],
  ])(
    "MSG-21 a database with %s overwritten is reported; its good back-ups stay and no bad one is added",
    async (_what, page, words) => {
      const good = await made();
      await damage(file, page);
      now += 100 * day;
      const report = await backupOf().run();
      expect(report.made).toEqual([]);
      expect(report.failed).toEqual([{ database: `sqlite:${file}`, error: expect.any(Error) }]);
      expect(report.failed[0]!.error.message).toMatch(words);
      expect(await readdir(to)).toEqual([good.file.slice(to.length + 1)]);
    },
  );

  it("MSG-21 a database that fails does not stop the others", async () => {
    const empty = join(folder, "empty.db");
    await writeFile(empty, "");
    const files = [join(folder, "none.db"), empty, file];
    const report = await createBackup(
      files.map((one) => openSqlite({ file: one })),
      { to },
    ).run();
    expect(report.failed.map(({ error }) => error.message)).toEqual([
      `There is no file ${files[0]} to back up.`,
      `${empty} is empty: there is no database in it.`,
    ]);
    expect(report.made).toHaveLength(1);
    expect(await readdir(to)).toHaveLength(1);
    expect(existsSync(files[0]!)).toBe(false);
  });

  /** A back-up of several steps, and what happens at each. */
  async function runInSteps(atStep: (stop: AbortController, path: string) => void) {
    const large = join(folder, "large.db");
    await create(large, 1, 20_000);
    const stop = new AbortController();
    const check = stop.signal.throwIfAborted.bind(stop.signal);
    let checks = 0;
    stop.signal.throwIfAborted = () => {
      if (++checks > 3) atStep(stop, large); // the first three are before the copy
      check();
    };
    const report = await backupOf(large).run({ signal: stop.signal });
    expect(checks).toBeGreaterThan(3);
    return report;
  }

  it("MSG-21 an aborted back-up leaves nothing behind", async () => {
    const running = runInSteps((stop) => stop.abort(new Error("enough")));
    await expect(running).rejects.toThrow("enough");
    expect(await readdir(to)).toEqual([]);
  });

  it("MSG-11 MSG-21 a back-up is of one moment: commits between its steps neither get into it nor make it begin again", async () => {
    const DatabaseSync = await loadSqlite();
    let commits = 0;
    const report = await runInSteps((_stop, path) => {
      if (++commits > 50) throw new Error("The back-up began again and again.");
      const other = new DatabaseSync(path);
      other.exec("insert into t (value) values (2)");
      other.close();
    });
    expect(report.failed).toEqual([]);
    expect(await valueIn(report.made[0]!.file)).toBe(1);
    expect(await valueIn(join(folder, "large.db"))).toBe(2);
  });

  it("MSG-21 start makes the first back-up when the last one is old enough, and continues", async () => {
    await made();
    now += 3_600_000;
    let times = 0;
    const lines: string[] = [];
    const log = (message: string): void => void lines.push(message);
    const backup = backupOf(file, {
      everyMs: 3_600_000,
      clock: () => new Date(now + times++),
      logger: { debug: log, info: log, warn: log, error: log },
    });
    backup.start();
    backup.start(); // it runs already
    await expect.poll(() => lines).toEqual(["back-up made"]);
    await backup.stop();
    expect(await readdir(to)).toHaveLength(2);

    const early = backupOf(file, {
      everyMs: 3_600_000,
      logger: { debug: log, info: log, warn: log, error: log },
    });
    early.start();
    await early.stop();
    expect(lines).toHaveLength(1);

    const often = backupOf(file, { everyMs: 1, clock: () => new Date(now + 10_000 * times++) });
    often.start();
    await expect.poll(async () => (await readdir(to)).length).toBeGreaterThan(4);
    await often.stop();
  });

  it("MSG-21 start continues after a failure, and follows a changing list of databases", async () => {
    const lines: string[] = [];
    const log = (message: string): void => void lines.push(message);
    let calls = 0;
    const databases = async () => {
      calls++;
      if (calls < 3) throw new Error("away");
      return [openSqlite({ file })];
    };
    const logger = { debug: log, info: log, warn: log, error: log };
    const backup = createBackup(databases, { to, everyMs: 1, logger });
    backup.start();
    await expect.poll(() => lines.slice(0, 3)).toEqual(["back-up failed", "back-up failed", "back-up made"]);
    await backup.stop();
  });

  it("MSG-21 refuses wrong options and databases that it cannot back up", () => {
    const db = openSqlite({ file });
    const on = (name: "postgres" | "sqlserver") => ({ id: `${name}:h/d`, dialect: { ...db.dialect, name } });
    expect(() => createBackup([db], { to: "" })).toThrow("to must be a path");
    expect(() => createBackup([db], { to, keepMs: -1 })).toThrow("createBackup: keepMs");
    expect(() => createBackup([db], { to, everyMs: 2 ** 31 })).toThrow("createBackup: everyMs");
    expect(() => createBackup([db], { to, keep: 1 } as BackupOptions)).toThrow("unknown option keep");
    expect(() => createBackup(db as never, { to })).toThrow("an array of databases");
    expect(() => createBackup([openSqlite({ file: ":memory:" })], { to })).toThrow("has no file");
    expect(() => createBackup([db, on("postgres")], { to })).toThrow(
      /postgres:h\/d is on PostgreSQL: use pg_dump/,
    );
    expect(() => createBackup([on("sqlserver")], { to })).toThrow(/on SQL Server: use BACKUP DATABASE/);
  });
});

describe("copyDatabase", () => {
  it("MSG-11 on a Node without SQLite's back-up API, vacuum into makes the copy", async () => {
    const handle = new (await loadSqlite())(file, { readOnly: true });
    const copy = join(folder, "it's a copy.db");
    await copyInto(handle, undefined, copy, undefined);
    handle.close();
    expect(await valueIn(copy)).toBe(1);
  });

  it("MSG-21 a copy that cannot be written is reported with both names", async () => {
    const target = join(folder, "nowhere", "copy.db");
    await expect(copyDatabase({ from: file, to: target, check: "quick_check" })).rejects.toThrow(
      `${file} could not be copied to ${target}: ENOENT`,
    );
  });
});

describe("restoreBackup", () => {
  it("MSG-21 replaces the database and keeps the old one, with its WAL", async () => {
    const { file: from } = await made();
    await rm(file);
    await create(file, 2);
    await writeFile(`${file}-wal`, "a WAL of the old database");
    await writeFile(`${file}-shm`, "its index");
    const { replaced, useUnknown } = await restoreBackup({ from, to: file, force: true });
    expect(useUnknown).toBe(false);
    expect(await valueIn(file)).toBe(1);
    expect(await valueIn(replaced!)).toBe(2);
    expect(await valueIn(from)).toBe(1);
  });

  it("MSG-21 a side file without its database is not applied to the restored one", async () => {
    const { file: from } = await made();
    await rm(file);
    await writeFile(`${file}-wal`, "x");
    expect((await restoreBackup({ from, to: file })).replaced).toBeUndefined();
    expect(existsSync(`${file}-wal`)).toBe(false);
    expect(await valueIn(file)).toBe(1);
  });

  it("MSG-21 creates the folder, and replaces a file whose first page is damaged with a warning", async () => {
    const { file: from } = await made();
    const elsewhere = join(folder, "new", "app.db");
    expect(await restoreBackup({ from, to: elsewhere })).toMatchObject({
      file: elsewhere,
      replaced: undefined,
    });
    expect(await valueIn(elsewhere)).toBe(1);
    await damage(file, 1);
    expect((await restoreBackup({ from, to: file, force: true })).useUnknown).toBe(true);
    expect(await valueIn(file)).toBe(1);
  });

  it("MSG-21 refuses an existing file without force, a damaged back-up, the file itself and a missing one", async () => {
    const { file: from } = await made();
    await expect(restoreBackup({ from, to: file })).rejects.toThrow(/exists and was not replaced.*--force/);
    await expect(restoreBackup({ from: file, to: file, force: true })).rejects.toThrow("the same file");
    await expect(restoreBackup({ from: `${from}x`, to: file })).rejects.toThrow(
      `There is no back-up ${from}x`,
    );
    await expect(restoreBackup({ from: "", to: file })).rejects.toThrow("must be paths");
    await damage(from, 6);
    await expect(restoreBackup({ from, to: file, force: true })).rejects.toThrow(`${from} is damaged`);
    expect(await valueIn(file)).toBe(1);
    expect((await readdir(folder)).filter((name) => !name.startsWith("app.db"))).toEqual(["backups"]);
  });
});

const openFiles = "/proc/self/fd";

it.skipIf(!existsSync(openFiles))(
  "MSG-21 each failed attempt to open a damaged database closes the file again",
  async () => {
    await damage(file, 1);
    const db = openSqlite({ file });
    for (let attempt = 0; attempt < 3; attempt++)
      await expect(db.driver.query({ name: "read", text: "select 1" }, {})).rejects.toThrow("is damaged");
    await db.close();
    const paths = (await readdir(openFiles)).map((name) =>
      readlink(join(openFiles, name)).catch(() => "closed meanwhile"),
    );
    expect((await Promise.all(paths)).filter((path) => path.startsWith(folder))).toEqual([]);
  },
);
