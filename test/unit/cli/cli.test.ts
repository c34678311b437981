import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exitCodes, type Terminal } from "../../../src/cli/command.js";
import { commands, runCli } from "../../../src/cli/run.js";
import { createInbox, migrate, newOwnerToken } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { createWebhookRoute } from "../../../src/webhooks/index.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-cli-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs the command line as a script would. */
async function cli(...args: string[]) {
  const out: string[] = [];
  const err: string[] = [];
  const terminal: Terminal = {
    env: {},
    isInteractive: false,
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
    signal: new AbortController().signal,
  };
  const code = await runCli(args, terminal);
  return { code, out: out.join("\n"), err: err.join("\n") };
}

const newDatabase = () => `sqlite:${join(folder, `${crypto.randomUUID()}.db`)}`;

describe("the command line", () => {
  it("ADD-07 explains itself", async () => {
    const { code, out } = await cli("--help");
    expect(code).toBe(exitCodes.ok);
    for (const { name, summary } of commands)
      expect(out).toMatch(new RegExp(`${name}\\s+${summary.slice(0, 20)}`));
    expect((await cli()).code).toBe(exitCodes.usage);
  });

  it.each(commands.map(({ name }) => name))(
    "ADD-07 %s --help names every option and has an example",
    async (name) => {
      const { code, out } = await cli(name, "--help");
      expect(code).toBe(exitCodes.ok);
      const command = commands.find((known) => known.name === name)!;
      for (const option of Object.keys(command.options))
        expect(out).toMatch(new RegExp(`--${option}.* \\S+`));
      expect(out).toContain(`oncebox ${name}`);
      expect(await cli("help", name)).toMatchObject({ code: exitCodes.ok, out });
    },
  );

  it.each([
    [["nonsense"], /no command "nonsense"/],
    [["status", "--nonsense"], /Unknown option '--nonsense'/],
    [["status", "more"], /one argument too many/],
    [["status", "--max-dead", "few", "--database", "sqlite::memory:"], /whole number/],
    [["status", "--database", "mysql://u:hunter2@h/d"], /no known kind/],
    [["status"], /ONCEBOX_DATABASE_URL/],
    [["dispatch", "--app", "x.js"], /--once/],
    [["dispatch", "--once", "--app", "/nowhere/x.js"], /could not be loaded/],
    [["reap", "--time=-1", "--database", "sqlite::memory:"], /greater than 0/],
    [["sign", "morse", "--secret", "x"], /stripe, github/],
    [["sign", "stripe"], /--secret/],
  ])("ADD-07 what is wrong with %j is said, with the exit code for it", async (args, words) => {
    const { code, out, err } = await cli(...args);
    expect(err).toMatch(words);
    expect(err).not.toContain("hunter2");
    expect(out).toBe("");
    expect(code).toBe(args.join() === "status" ? exitCodes.failed : exitCodes.usage);
  });

  it("ADD-07 a database without the tables, or none at all, fails and says what to do", async () => {
    const { code, err } = await cli("status", "--database", newDatabase());
    expect(code).toBe(exitCodes.failed);
    expect(err).toMatch(/migrate/);
    expect(await cli("status", "--database", "postgres://nobody@127.0.0.1:1/x")).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringMatching(/ECONNREFUSED/),
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
    expect(JSON.parse((await cli("migrate", "--json", "--database", database)).out)).toEqual({ applied: [] });
    const printed = await cli(
      "migrate",
      "--print",
      "--database",
      "mssql://nobody@nowhere/x",
      "--schema",
      "mine",
    );
    expect(printed.out).toContain("create table [mine].[Inbox]");
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
      /inbox\s+Seen 0 {2}Processing 1 {2}Done 0 {2}Dead 1 {2}\(due now: 1/,
    );
    expect((await cli("status", "--max-dead", "0", "--database", database)).code).toBe(exitCodes.exceeded);
    expect((await cli("status", "--max-dead", "1", "--max-age", "3600", "--database", database)).code).toBe(
      exitCodes.ok,
    );
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
      out: expect.stringMatching(/inbox\s+freed 0/),
    });
    expect(await cli("cleanup", "--database", database)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/deleted 0/),
    });
  });

  it("ADD-07 FUN-02 sign makes a request that the route accepts", async () => {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db, { outbox: false });
    const route = createWebhookRoute({
      inbox: createInbox(db),
      sources: { stripe: { scheme: "stripe", secrets: "whsec_x" } },
    });
    const { out } = await cli(
      "sign",
      "stripe",
      "--secret",
      "whsec_x",
      "--body",
      '{"id":"it\'s","type":"t"}',
      "--json",
    );
    const { url, ...request } = JSON.parse(out);
    expect(await (await route(new Request(url, request))).json()).toMatchObject({
      outcome: "enqueued",
      messageId: "it's",
    });
    const { out: curl } = await cli("sign", "stripe", "--secret", "whsec_x", "--body", "it's");
    expect(curl).toContain(`--data-binary 'it'\\''s'`);
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
});
