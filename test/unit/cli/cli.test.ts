import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { exitCodes, type Terminal } from "../../../src/cli/command.js";
import { newDevelopmentKeys, shareDevelopmentKeys } from "../../../src/cli/development-keys.js";
import { commands, runCli } from "../../../src/cli/run.js";
import { withProgress } from "../../../src/cli/terminal.js";
import { createInbox, migrate, newOwnerToken } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { createWebhookRoute } from "../../../src/webhooks/index.js";
import { cli, cliWith } from "../../support/cli.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-cli-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const newDatabase = () => `sqlite:${join(folder, `${crypto.randomUUID()}.db`)}`;

describe("the command line", () => {
  it("ADD-07 --help lists every command", async () => {
    const { code, out } = await cli("--help");
    expect(code).toBe(exitCodes.ok);
    for (const { name, summary } of commands)
      expect(out).toMatch(new RegExp(`${name}\\s+${summary.slice(0, 20)}`));
    expect((await cli()).code).toBe(exitCodes.usage);
    expect(await cli("--version")).toMatchObject({
      code: exitCodes.ok,
      out: expect.stringMatching(/^\d+\.\d+\.\d+/),
    });
  });

  it.each([
    [["nonsense"], /no command "nonsense"/],
    [["help", "nonsense"], /no command "nonsense"/],
    [["status", "--nonsense"], /Unknown option '--nonsense'/],
    [["status", "more"], /"more" is an unexpected argument/],
    [
      ["status"],
      /no database.*--database or ONCEBOX_DATABASE_URL.* sqlite:oncebox\.db, which `oncebox dev` creates/,
    ],
    [["status", "--max-dead", "few", "--database", "sqlite::memory:"], /whole number/],
    [["status", "--database", "mysql://u:hunter2-hunter2-hunter2@h/d"], /no known kind/],
    [["status"], /ONCEBOX_DATABASE_URL/],
    [["status", "--every", "5s", "--database", "sqlite::memory:"], /--every is for --watch/],
    [["dispatch", "--app", "x.js"], /--once/],
    [["dispatch", "--once", "--app", "/nowhere/x.js"], /could not be loaded/],
    [["reap", "--time=-1", "--database", "sqlite::memory:"], /greater than 0/],
    [["sign", "morse", "--secret", "x"], /eventgrid, github/],
    [["sign", "stripe"], /--secret/],
    [["sign", "stripe", "--secret", "x", "--url", "nowhere"], /url must be absolute/],
    [["sign", "twilio", "--secret", "x", "--url", "nowhere", "--send"], /url must be absolute/],
    [["sign", "stripe", "--secret", "x", "--header", "x-note: €"], /x-note is not allowed in a header/],
    [["sign", "github", "--secret", "x", "--id", "€"], /messageId is not allowed in a header/],
    [["sign", "stripe", "--secret", "x", "--header", "Authorization hunter2-hunter2-hunter2"], /name: value/],
    [["sign", "stripe", "--secret", "x", "--body", "a", "--file", "b"], /not both/],
    [["dev", "--port", "99999"], /from 0 to 65535/],
    [["migrate", "--database", "postgres://u:hunter2-hunter2-hunter2@"], /percent-encoded/],
    [["migrate", "--database", "Server=;Password=hunter2-hunter2-hunter2"], /no value for "Server"/],
  ])(
    "ADD-07 %j is refused with the reason and the exit code of a wrong command line",
    async (args, words) => {
      const { code, out, err } = await cli(...args);
      expect(err).toMatch(words);
      expect(err).not.toContain("hunter2-hunter2-hunter2");
      expect(out).toBe("");
      expect(code).toBe(exitCodes.usage);
    },
  );

  it("ADD-07 an app that Node takes for CommonJS is refused with the command that changes that", async () => {
    for (const message of ["Cannot use import statement outside a module", "Unexpected token 'export'"]) {
      const app = join(folder, `${crypto.randomUUID()}.mjs`);
      await writeFile(app, `throw new SyntaxError(${JSON.stringify(message)});\n`); // as Node does for such a file
      const { code, err } = await cli("dispatch", "--once", "--app", app);
      expect(code).toBe(exitCodes.usage);
      expect(err).toContain("npm pkg set type=module");
    }
  });

  it("ADD-07 a command that needs an existing SQLite file does not create it", async () => {
    const app = join(folder, "app-without-file.mjs");
    await writeFile(app, "export default { handlers: { t() {} } };\n");
    for (const command of ["status", "reap", "cleanup", "dispatch"]) {
      const database = newDatabase();
      const file = database.slice("sqlite:".length);
      const args = command === "dispatch" ? ["--once", "--app", app] : [];
      const { code, out, err } = await cli(command, "--database", database, ...args);
      expect([code, out]).toEqual([exitCodes.usage, ""]);
      expect(err).toContain(`There is no file ${file}`);
      expect(err).toMatch(/Check the name, or create the database with `oncebox migrate`/);
      expect(existsSync(file)).toBe(false);
    }
  });

  it("ADD-07 a database without tables, or one that cannot be reached, fails and the error says what to do", async () => {
    const database = newDatabase();
    await writeFile(database.slice("sqlite:".length), "");
    const { code, err } = await cli("status", "--database", database);
    expect(code).toBe(exitCodes.failed);
    expect(err).toMatch(/migrate/);
    const text = join(folder, "no-database.txt");
    await writeFile(text, "a text that is long enough not to be taken for an empty file ".repeat(20));
    expect(await cli("status", "--database", `sqlite:${text}`)).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringContaining(`sqlite:${text} is not a SQLite database`),
    });
    expect(await cli("status", "--database", "postgres://nobody@127.0.0.1:1/x")).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringMatching(
        /postgres:127\.0\.0\.1\/x does not respond .*ECONNREFUSED.*Check that it is running/,
      ),
    });
  });

  it("ADD-07 migrate creates the tables once and prints the same as the rendered schema", async () => {
    const database = newDatabase();
    expect(await cli("migrate", "--database", database)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Applied: Inbox 1/),
    });
    expect(await cli("migrate", "--database", database)).toMatchObject({
      code: 0,
      out: "The schema is up to date.",
    });
    expect(JSON.parse((await cli("migrate", "--json", "--database", database)).out)).toEqual({
      applied: [],
      warnings: [],
    });
    const printed = await cli(
      "migrate",
      "--print",
      "--all",
      "--database",
      "mssql://nobody@nowhere/x",
      "--schema",
      "mine",
    );
    expect(printed.out).toContain("create table [mine].[InboxMessages]");
  });

  it("ADD-07 status counts, and has exit codes for limits", async () => {
    const database = newDatabase();
    const db = openSqlite({ file: database.slice("sqlite:".length) });
    await migrate(db);
    const inbox = createInbox(db);
    await inbox.enqueue(["1", "2"].map((messageId) => ({ source: "s", messageId, topic: "t", payload: "" })));
    const owner = newOwnerToken();
    await inbox.fail(owner, await inbox.claim({ owner, batchSize: 1 }), "no");
    await db.close();
    const { out, code } = await cli("status", "--json", "--database", database);
    expect(code).toBe(exitCodes.ok);
    expect(JSON.parse(out)).toMatchObject({ inbox: { counts: { Processing: 1, Dead: 1 }, due: 1 } });
    expect((await cli("status", "--database", database)).out).toMatch(
      /inbox\s+waiting 1 {2}retrying 0 {2}running 0 {2}paused 0 {2}done 0 {2}dead 1 {2}\(due now: 1/,
    );
    expect((await cli("status", "--max-dead", "0", "--database", database)).code).toBe(exitCodes.exceeded);
    expect((await cli("status", "--max-dead", "1", "--max-age", "3600", "--database", database)).code).toBe(
      exitCodes.ok,
    );
  });

  it("ADD-07 status --watch repeats until it is stopped, and goes on when the database is away", async () => {
    const database = newDatabase();
    await cli("migrate", "--database", database);
    const stopping = new AbortController();
    const lines: string[] = [];
    const errors: string[] = [];
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const running = runCli(["status", "--watch", "--every", "1m", "--json", "--database", database], {
        env: {},
        isInteractive: false,
        out: (line) => void lines.push(line),
        err: (line) => void errors.push(line),
        signal: stopping.signal,
      });
      const until = async (isSo: () => boolean) => {
        while (!isSo()) await vi.advanceTimersByTimeAsync(60_000);
      };
      await until(() => lines.length >= 2);
      const db = openSqlite({ file: database.slice("sqlite:".length) });
      const alter = (text: string) => db.driver.query({ name: "away", text, unprepared: true }, {});
      await alter('alter table "InboxState" rename to "Away"');
      await until(() => errors.length >= 1);
      await alter('alter table "Away" rename to "InboxState"');
      await db.close();
      const before = lines.length;
      await until(() => lines.length > before);
      stopping.abort();
      expect(await running).toBe(exitCodes.ok);
    } finally {
      vi.useRealTimers();
    }
    expect(JSON.parse(lines[1]!)).toMatchObject({ at: expect.any(String), inbox: { due: 0 } });
    expect(errors[0]).toMatch(/^The status could not be read: /);
  });

  it("ADD-07 dispatch, reap and cleanup do their work once", async () => {
    const database = newDatabase();
    const db = openSqlite({ file: database.slice("sqlite:".length) });
    await migrate(db);
    await createInbox(db).receive({ source: "s", messageId: "1", topic: "t", payload: "" });
    await db.close();
    const app = join(folder, "app.mjs");
    await writeFile(app, "export default { handlers: { t() {} } };\n");
    const dispatched = await cli("dispatch", "--once", "--app", app, "--json", "--database", database);
    expect(dispatched.code).toBe(exitCodes.ok);
    expect(JSON.parse(dispatched.out)).toMatchObject({ inbox: { acked: 1 }, outbox: null, more: false });
    expect(await cli("reap", "--database", database)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/inbox\s+released 0/),
    });
    expect(await cli("cleanup", "--database", database)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/inbox +deleted: done 0 {2}dead 0/),
    });
  });

  it("ADD-02 ADD-07 status says how long dead messages are kept, where it knows", async () => {
    const database = newDatabase();
    const db = openSqlite({ file: database.slice("sqlite:".length) });
    await migrate(db);
    await createInbox(db).markDead({ source: "s", messageId: "1" }, "no");
    await db.close();
    const app = async (text: string) => {
      const file = join(folder, `${crypto.randomUUID()}.mjs`);
      await writeFile(file, `export default ${text};\n`);
      return ["status", "--database", database, "--app", file];
    };
    expect((await cli("status", "--database", database)).out).not.toMatch(/dead messages/);
    expect((await cli(...(await app("{}")))).out).toMatch(/dead messages are kept until they are replayed/);
    const own = await app("{ deadRetentionMs: 7776000000 }");
    expect((await cli(...own)).out).toMatch(/dead messages are deleted 90 days after their death/);
    expect(JSON.parse((await cli(...own, "--json")).out)).toMatchObject({ deadRetentionMs: 7_776_000_000 });
    const env = { ONCEBOX_DEAD_RETENTION_DAYS: "30" };
    expect((await cliWith(env, ...own)).out).toMatch(/deleted 30 days after/);
  });

  it("MID-09 ADD-07 status says which messages are retried for ever", async () => {
    const database = newDatabase();
    await cli("migrate", "--database", database);
    const status = async (app: string, ...more: string[]) => {
      const file = join(folder, `${crypto.randomUUID()}.mjs`);
      await writeFile(file, `export default ${app};\n`);
      return (await cli("status", "--database", database, "--app", file, ...more)).out;
    };
    const unlimited = "{ outbox: { retry: { maxAttempts: Infinity } } }";
    expect(await status("{}")).not.toMatch(/for ever/);
    expect(await status(unlimited)).toMatch(/^outbox {2}failed messages are retried for ever/m);
    const limits = async (app: string) => JSON.parse(await status(app, "--json")).maxAttempts;
    expect(await limits(unlimited)).toEqual({ inbox: 10, outbox: null });
    expect(await limits("{ dispatch: { retry: { maxAttempts: 3 } } }")).toEqual({ inbox: 3, outbox: 3 });
    const { out } = await cli("status", "--database", database, "--json");
    expect(JSON.parse(out)).not.toHaveProperty("maxAttempts");
  });

  it("ADD-07 dispatch says what is left", async () => {
    const database = newDatabase();
    const db = openSqlite({ file: database.slice("sqlite:".length) });
    await migrate(db);
    const later = new Date(Date.now() + 3_600_000);
    const message = { source: "s", topic: "t", payload: "" };
    await createInbox(db).enqueue([
      { ...message, messageId: "1" },
      { ...message, messageId: "2", dueAt: later },
    ]);
    await db.close();
    const app = join(folder, "left.mjs");
    await writeFile(app, "export default { handlers: { t() {} } };\n");
    const { code, out } = await cli("dispatch", "--once", "--app", app, "--database", database);
    expect(code).toBe(exitCodes.ok);
    expect(out).toMatch(/Left:\ninbox +waiting 1 .*done 1 .*\(due now: 0\)\noutbox +waiting 0/);
    const again = await cli("dispatch", "--once", "--app", app, "--json", "--database", database);
    expect(JSON.parse(again.out).left).toMatchObject({ inbox: { due: 0, counts: { Done: 1 } } });
  });

  it("ADD-07 migrate --print prints what is pending, and --all the whole", async () => {
    const database = newDatabase();
    const file = database.slice("sqlite:".length);
    const whole = await cli("migrate", "--print", "--all", "--database", database);
    expect(await cli("migrate", "--print", "--database", database)).toEqual(whole);
    expect(existsSync(file)).toBe(false);
    const db = openSqlite({ file });
    await migrate(db, { outbox: false });
    const half = await cli("migrate", "--print", "--database", database);
    expect(half.out).toMatch(/create table "?OutboxMessages"?\b/i);
    expect(half.out).not.toMatch(/create table "?InboxMessages"?\b/i);
    await migrate(db);
    await db.close();
    expect(await cli("migrate", "--print", "--database", database)).toEqual({
      code: exitCodes.ok,
      out: "",
      err: "The schema is up to date. --all prints the whole of it.",
    });
    expect(await cli("migrate", "--all", "--database", database)).toMatchObject({ code: exitCodes.usage });
  });

  it("ADD-07 without a database, commands use the one that dev has made", async () => {
    const own = await mkdtemp(join(folder, "dev-"));
    const before = process.cwd();
    process.chdir(own);
    try {
      expect(await cli("status")).toMatchObject({
        code: exitCodes.usage,
        err: expect.stringMatching(/There is no database.*sqlite:oncebox\.db/),
      });
      const db = openSqlite({ file: "oncebox.db" });
      await migrate(db);
      await db.close();
      expect((await cli("status")).out).toMatch(/^inbox +waiting 0/);
      const elsewhere = await cliWith({ ONCEBOX_DATABASE_URL: "sqlite:other.db" }, "status");
      expect(elsewhere.err).toContain("There is no file other.db");
    } finally {
      process.chdir(before);
    }
  });

  it("ADD-07 dispatch that runs out of time has the exit code for work that is left", async () => {
    const database = newDatabase();
    await cli("migrate", "--database", database);
    const app = join(folder, "out-of-time.mjs");
    await writeFile(app, "export default { handlers: { t() {} } };\n");
    const args = ["dispatch", "--once", "--app", app, "--database", database];
    expect((await cli(...args, "--time", "0.000001")).code).toBe(exitCodes.more);
    expect((await cli(...args)).code).toBe(exitCodes.ok);
  });

  it("ADD-07 long work prints its progress on an interactive terminal, and nowhere else", async () => {
    vi.useFakeTimers();
    try {
      const shown = async (isInteractive: boolean) => {
        const lines: string[] = [];
        const terminal = { isInteractive, err: (line: string) => void lines.push(line) } as Terminal;
        const work = withProgress(terminal, "reap", () => new Promise((end) => setTimeout(end, 5_000)));
        await vi.advanceTimersByTimeAsync(10_000);
        await work;
        return lines;
      };
      expect(await shown(true)).toEqual(["reap … 2 s", "reap … 4 s"]);
      expect(await shown(false)).toEqual([]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("ADD-07 FUN-02 sign makes a request that the route accepts", async () => {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db, { outbox: false });
    const route = createWebhookRoute({
      inbox: createInbox(db),
      sources: { stripe: { scheme: "stripe", secrets: "whsec_x_secret_of_tests" } },
    });
    const { out } = await cli(
      "sign",
      "stripe",
      "--secret",
      "whsec_x_secret_of_tests",
      "--body",
      '{"id":"it\'s","type":"t"}',
      "--json",
    );
    const { url, ...request } = JSON.parse(out);
    expect(await (await route(new Request(url, request))).json()).toMatchObject({
      outcome: "enqueued",
      messageId: "it's",
    });
    const { out: curl } = await cli(
      "sign",
      "stripe",
      "--secret",
      "whsec_x_secret_of_tests",
      "--body",
      "it's",
    );
    expect(curl).toContain(`--data-raw 'it'\\''s'`);
    await db.close();
    const away = await cli(
      "sign",
      "stripe",
      "--secret",
      "x",
      "--send",
      "--url",
      "http://127.0.0.1:1/webhooks/stripe",
    );
    expect(away).toMatchObject({ code: exitCodes.failed, err: expect.stringMatching(/oncebox dev/) });
  });

  it("ADD-07 FUN-02 sign finds the sources of the app and of ONCEBOX_WEBHOOKS, with their own schemes and secrets", async () => {
    const acme = {
      verify: { kind: "signature", header: "x-acme-signature", encoding: "base64" },
      messageId: "{header:x-acme-id}",
    } as const;
    const app = join(folder, "sources.mjs");
    const sources = { acme: { scheme: acme, secrets: [{ from: "env", name: "ACME_SECRET" }] } };
    await writeFile(app, `export default { sources: ${JSON.stringify(sources)} };\n`);
    const webhooks = {
      other: { scheme: acme, secrets: ["s3cret-of-16-bytes"], messageId: "{header:x-other-id}" },
    };
    const env = { ACME_SECRET: "hunter2-hunter2-hunter2", ONCEBOX_WEBHOOKS: JSON.stringify(webhooks) };

    const db = openSqlite({ file: ":memory:" });
    await migrate(db, { outbox: false });
    const route = createWebhookRoute({
      inbox: createInbox(db),
      sources: { acme: { scheme: acme, secrets: "hunter2-hunter2-hunter2" }, other: { ...webhooks.other } },
    });
    for (const name of ["acme", "other"]) {
      const { out } = await cliWith(env, "sign", name, "--app", app, "--id", `${name}-1`, "--json");
      expect(out).not.toMatch(/hunter2-hunter2-hunter2|s3cret-of-16-bytes/);
      const { url, ...request } = JSON.parse(out);
      expect(await (await route(new Request(url, request))).json()).toEqual({
        outcome: "enqueued",
        messageId: expect.stringMatching(new RegExp(`^${name}-1~`)),
      });
    }
    await db.close();
    const { out: elsewhere } = await cliWith(
      { ...env, PORT: "8080" },
      "sign",
      "acme",
      "--app",
      app,
      "--json",
    );
    expect(JSON.parse(elsewhere).url).toBe("http://127.0.0.1:8080/webhooks/acme"); // where dev listens then
    // Without the variable the local run has a secret of its own, and only there is it known.
    const unshare = await shareDevelopmentKeys(7071, await newDevelopmentKeys([]));
    const local = await cli("sign", "acme", "--app", app, "--id", "1");
    await unshare();
    expect([local.code, local.out]).toEqual([exitCodes.ok, expect.stringContaining("x-acme-signature: ")]);
    const url = "https://example.com/webhooks/acme";
    expect(await cli("sign", "acme", "--app", app, "--url", url)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringMatching(/ACME_SECRET, which should hold a secret, is not set/),
    });
    expect(await cliWith(env, "sign", "nobody", "--app", app)).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringMatching(/acme, other, .*stripe/),
    });
  });

  it("ADD-07 FUN-02 sign prints a body that is not UTF-8 without losing a byte", async () => {
    const file = join(folder, "body.bin");
    const body = Buffer.from([0x7b, 0xff, 0x00, 0x7d]);
    await writeFile(file, body);
    const { out: json } = await cli("sign", "github", "--secret", "x", "--file", file, "--json");
    expect(Buffer.from(JSON.parse(json).bodyBase64, "base64")).toEqual(body);
    const { out: curl } = await cli("sign", "github", "--secret", "x", "--file", file);
    expect(curl).toContain(`--data-binary '@${file}'`);
    // To curl an @ at the start is a file's name, unless it is told that it is not.
    const { out: text } = await cli("sign", "github", "--secret", "x", "--body", "@home");
    expect(text).toContain("--data-raw '@home'");
  });

  it("ADD-07 FUN-07 status, migrate and the jobs work for an app with many tenants", async () => {
    const app = join(folder, "tenants.ts");
    const module = (name: string) => JSON.stringify(new URL(`../../../src/${name}`, import.meta.url).href);
    const tenants = ["a", "b"].map((id) => ({ id, database: `sqlite:${join(folder, `tenant-${id}.db`)}` }));
    await writeFile(
      app,
      `import { multiTenant } from ${module("app/tenants.ts")};
      import { tenantsFromConfiguration } from ${module("app/tenants.ts")};
      export default {
        tenants: multiTenant({ discover: tenantsFromConfiguration(${JSON.stringify(tenants)}) }),
        handlers: { t() {} },
      };\n`,
    );
    const printed = await cli("migrate", "--print", "--app", app);
    expect(printed).toMatchObject({ code: exitCodes.ok, err: "" });
    expect(printed.out).toMatch(/^-- tenants: \["a","b"\]\n/);
    expect(printed.out.match(/create table "?InboxMessages"?\b/gi)).toHaveLength(1);
    expect(await cli("status", "--app", app)).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringContaining(`There is no file ${join(folder, "tenant-a.db")}`),
    });
    expect(existsSync(join(folder, "tenant-a.db"))).toBe(false);
    expect((await cli("migrate", "--app", app)).code).toBe(exitCodes.ok);

    for (const { id, database } of tenants) {
      const db = openSqlite({ file: database.slice("sqlite:".length) });
      await createInbox(db).receive({ source: "s", messageId: id, topic: "t", payload: "" });
      await db.close();
    }
    const status = await cli("status", "--app", app, "--json");
    expect(JSON.parse(status.out)).toMatchObject({
      inbox: { counts: { Processing: 2, Done: 0 }, due: 2, oldestDueAgeMs: expect.any(Number) },
      outbox: { counts: { Ready: 0 }, due: 0, oldestDueAgeMs: null },
    });
    expect((await cli("dispatch", "--once", "--app", app)).out).toMatch(
      /inbox +claimed 2 {2}done 2 {2}\(nothing more is due\)[\s\S]*tenants turns/,
    );
    expect((await cli("status", "--app", app)).out).toMatch(/inbox .*done 2/);
  });

  it("ADD-07 FUN-11 dev reports what is wrong with a source's secrets", async () => {
    const app = join(folder, "no-secret.mjs");
    await writeFile(app, 'export default { sources: { a: { scheme: "stripe", secrets: null } } };\n');
    expect(await cli("dev", "--port", "0", "--app", app, "--database", "sqlite::memory:")).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringMatching(/a: secrets is missing or empty/),
    });
  });
});
