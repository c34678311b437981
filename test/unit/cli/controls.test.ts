import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { exitCodes } from "../../../src/cli/command.js";
import { createInbox, createOutbox, migrate, newOwnerToken } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { cli } from "../../support/cli.js";

const jsonLines = (out: string) => out.split("\n").map((line) => JSON.parse(line));

describe("pause, resume and limit", () => {
  let folder: string;
  let file: string;
  let number = 0;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-controls-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  beforeEach(async () => {
    file = join(folder, `${++number}.db`);
    await inDatabase(async ({ inbox, outbox }) => {
      await inbox.receive({ source: "stripe", messageId: "1", topic: "paid", payload: "secret" });
      await outbox.enqueue([
        { topic: "mail", payload: "secret" },
        { topic: "other", payload: "secret" },
      ]);
    });
  });

  async function inDatabase<T>(
    work: (stores: {
      inbox: ReturnType<typeof createInbox>;
      outbox: ReturnType<typeof createOutbox>;
    }) => Promise<T>,
  ): Promise<T> {
    const db = openSqlite({ file });
    try {
      await migrate(db);
      return await work({ inbox: createInbox(db), outbox: createOutbox(db) });
    } finally {
      await db.close();
    }
  }

  const run = (...args: string[]) => cli(...args, "--database", `sqlite:${file}`);
  const claimed = () =>
    inDatabase(async ({ inbox, outbox }) => {
      const owner = newOwnerToken();
      const [incoming, outgoing] = [await inbox.claim({ owner }), await outbox.claim({ owner })];
      await inbox.release(owner, incoming);
      await outbox.release(owner, outgoing);
      const all = [...incoming, ...outgoing];
      return all.map(({ topic }) => topic);
    });

  it("ADD-07 ADD-12 status lists topics whose messages were acknowledged without a handler", async () => {
    await inDatabase(({ inbox }) => inbox.recordUnhandled([{ topic: "stripe.created", messages: 12 }]));
    expect((await run("status")).out).toMatch(
      /^inbox {3}topic "stripe.created": no handler, 12 acknowledged, the last at \d{4}-\S+Z$/m,
    );
    expect(JSON.parse((await run("status", "--json")).out).unhandled).toEqual([
      { topic: "stripe.created", messages: 12, lastSeenAt: expect.any(String) },
    ]);
  });

  it("ADD-07 ADD-17 pauses a topic, shows it in status, and resumes it", async () => {
    const paused = await run("pause", "--topic", "mail", "--queue", "outbox", "--by", "alice");
    expect(paused).toMatchObject({ code: exitCodes.ok, err: "" });
    expect(paused.out).toMatch(/^outbox {2}topic "mail": paused \(1 waiting\), by alice since \d{4}-/);
    expect(await claimed()).toEqual(["paid", "other"]);
    expect((await run("list", "--queue", "outbox")).out).toMatch(/ paused +mail .*\n.* waiting +other /);
    const status = await run("status");
    expect(status.out).toMatch(
      /^outbox {2}waiting 1 {2}retrying 0 {2}running 0 {2}paused 1 {2}done 0 {2}dead 0 {2}\(due now: 1, /m,
    );
    expect(status.out).toMatch(/^outbox {2}topic "mail": paused \(1 waiting\), by alice since /m);
    expect(JSON.parse((await run("status", "--json")).out)).toMatchObject({
      outbox: { due: 1, phases: { waiting: 1, paused: 1 } },
      controls: [{ queue: "outbox", scope: "topic", name: "mail", paused: true, waiting: 1, by: "alice" }],
    });
    expect(await run("resume", "--topic", "mail")).toMatchObject({
      code: exitCodes.ok,
      out: 'outbox  resumed the topic "mail"\noutbox  waiting 2  retrying 0  running 0  paused 0  done 0  dead 0',
    });
    expect((await claimed()).sort()).toEqual(["mail", "other", "paid"]);
    const records = await run("dead", "operations", "--queue", "outbox");
    expect(records.out).toMatch(/ resume +outbox +\S+ +\S+Z +- +\S+Z +- +topic=mail$/m);
    expect(records.out).toMatch(/ pause +outbox +alice +\S+Z +- +\S+Z +- +topic=mail$/m);
    expect(await run("resume", "--topic", "mail")).toMatchObject({
      code: exitCodes.failed,
      err: 'There was no pause of the topic "mail" in inbox and outbox. `oncebox status` shows what is paused.',
    });
  });

  it("ADD-17 pauses a source, which only the inbox has, and everything", async () => {
    const source = await run("pause", "--source", "stripe", "--json");
    expect(jsonLines(source.out)).toMatchObject([
      { queue: "inbox", scope: "source", name: "stripe", paused: true, by: userInfo().username },
    ]);
    expect(await claimed()).toEqual(["mail", "other"]);
    expect((await run("pause", "--all")).out).toMatch(
      /^inbox {3}all messages: paused.*\ninbox {3}waiting 0 .* paused 1 .*\noutbox {2}all messages: paused.*\noutbox {2}waiting 0 .* paused 2 /,
    );
    expect(await claimed()).toEqual([]);
    const resumed = await run("resume", "--all", "--json");
    expect(jsonLines(resumed.out)).toMatchObject([
      { queue: "inbox", wasPaused: true, phases: { paused: 1 } },
      { queue: "outbox", wasPaused: true, phases: { waiting: 2, paused: 0 } },
    ]);
    expect(await claimed()).toEqual(["mail", "other"]);
  });

  it("ADD-17 limits a topic, and takes the limit away", async () => {
    const limited = await run("limit", "--topic", "mail", "--per-second", "0.5", "--queue", "outbox");
    expect(limited.out).toMatch(/^outbox {2}topic "mail": at most 0.5 per second \(1 waiting\), by /);
    expect((await run("status")).out).toContain("at most 0.5 per second");
    const removed = await run("limit", "--topic", "mail", "--none", "--json");
    expect(jsonLines(removed.out)).toEqual([
      { queue: "inbox", control: null },
      { queue: "outbox", control: null },
    ]);
    expect((await run("limit", "--all", "--none", "--queue", "inbox")).out).toBe(
      "inbox   no limit on all messages",
    );
  });

  it("ADD-07 ADD-17 refuses a command line that says too little or too much", async () => {
    for (const args of [
      ["pause"],
      ["pause", "--topic", ""],
      ["pause", "--topic", "mail", "--all"],
      ["pause", "--source", "stripe", "--queue", "outbox"],
      ["pause", "--topic", "mail", "--queue", "both"],
      ["pause", "mail"],
      ["resume"],
      ["limit", "--topic", "mail"],
      ["limit", "--per-second", "5"],
      ["limit", "--topic", "mail", "--per-second", "5", "--none"],
      ["limit", "--topic", "mail", "--per-second", "0"],
      ["limit", "--topic", "mail", "--per-second", "1e3"],
      ["limit", "--topic", "mail", "--per-second", "10000000"],
      ["pause", "--all", "--tenant", "acme"],
      ["pause", "--all", "--by", ""],
      ["pause", "--all", "--by", "x".repeat(101)],
      ["pause", "--all", "--by", "al\u001b[2Jice"],
      ["resume", "--all", "--by", "al\u200bice"],
      ["limit", "--all", "--per-second", "1", "--by", "\u202eecila"],
    ]) {
      expect(await run(...args), args.join(" ")).toMatchObject({ code: exitCodes.usage, out: "" });
    }
    expect(await claimed()).toEqual(["paid", "mail", "other"]);
  });

  it("ADD-17 pauses one tenant of an app, and names it in status", async () => {
    const app = join(folder, "tenants.ts");
    const module = (name: string) => JSON.stringify(new URL(`../../../src/${name}`, import.meta.url).href);
    const tenants = ["acme", "beta"].map((id) => ({ id, database: `sqlite:${join(folder, `${id}.db`)}` }));
    await writeFile(
      app,
      `import { multiTenant } from ${module("app/tenants.ts")};
      import { tenantsFromConfiguration } from ${module("app/tenants.ts")};
      export default { tenants: multiTenant({ discover: tenantsFromConfiguration(${JSON.stringify(tenants)}) }) };\n`,
    );
    expect((await cli("migrate", "--app", app)).code).toBe(exitCodes.ok);
    expect((await cli("pause", "--all", "--app", app)).err).toContain("Name one with --tenant");
    const paused = await cli(
      "pause",
      "--all",
      "--queue",
      "inbox",
      "--app",
      app,
      "--tenant",
      "beta",
      "--by",
      "alice",
    );
    expect(paused.code).toBe(exitCodes.ok);
    const status = await cli("status", "--app", app);
    expect(status.out).toMatch(/^inbox {3}tenant beta, all messages: paused, by alice since /m);
    expect(status.out).not.toContain("tenant acme");

    const statusOf = (id: string) => cli("status", "--app", app, "--tenant", id);
    expect((await statusOf("beta")).out).toContain("all messages: paused, by alice");
    expect(await statusOf("acme")).toMatchObject({
      code: exitCodes.ok,
      out: expect.not.stringContaining("paused, by"),
    });
    expect(await statusOf("gone")).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringContaining('There is no tenant "gone"'),
    });
  });
});
