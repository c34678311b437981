import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Operation, operatorsOf } from "../../../src/admin/index.js";
import { exitCodes } from "../../../src/cli/command.js";
import { explainRest } from "../../../src/cli/dead-operations.js";
import { runCli } from "../../../src/cli/run.js";
import { createInbox, createOutbox, migrate, newOwnerToken } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { cli } from "../../support/cli.js";

const jsonLines = (out: string) => out.split("\n").map((line) => JSON.parse(line));

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-messages-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Three inbox messages, of which two are dead, and two outbox messages, of which one is dead. */
async function filled(file = join(folder, `${crypto.randomUUID()}.db`)) {
  const db = openSqlite({ file });
  await migrate(db);
  const inbox = createInbox(db);
  const outbox = createOutbox(db);
  const owner = newOwnerToken();
  const incoming = (source: string, messageId: string, topic: string) => ({
    source,
    messageId,
    topic,
    payload: "the\nsecret",
    headers: { trace: "t-1" },
  });
  await inbox.enqueue([incoming("stripe", "evt/1", "paid")]);
  await inbox.enqueue([incoming("erp", "2", "moved")]);
  for (const message of await inbox.claim({ owner }))
    await inbox.fail(owner, [message], message.source === "erp" ? "timed \u001b[2Jout" : "no such order");
  await inbox.enqueue([incoming("stripe", "evt/3", "paid")]);
  const failed = await outbox.enqueue({ topic: "mail", payload: "the secret", naturalKey: "order-7" });
  await outbox.fail(owner, await outbox.claim({ owner }), "refused");
  await outbox.enqueue({ topic: "mail", payload: "the secret" });
  await db.close();
  return { url: `sqlite:${file}`, failed };
}

describe("commands on messages", () => {
  it("ADD-07 list shows both queues as tables, and finds by queue, state, topic, source, error and age", async () => {
    const { url } = await filled();
    const list = (...args: string[]) => cli("list", ...args, "--database", url);
    const { code, out } = await list();
    expect(code).toBe(exitCodes.ok);
    expect(out).toMatch(
      /^INBOX +STATE +TOPIC +TYPE +ATTEMPT +SINCE +ERROR\nstripe\/evt%2F1 +dead +paid .*no such order$/m,
    );
    expect(out).toMatch(/^OUTBOX .*\n.* dead +mail .* refused\n.* waiting /m);
    expect(out).toContain("timed \\u001b[2Jout");
    expect(out).not.toContain("\u001b");
    expect(out).not.toContain("secret");
    const keys = async (...args: string[]) => {
      const { out: lines } = await list("--json", ...args);
      return lines === "" ? [] : jsonLines(lines).map(({ key }) => key);
    };
    expect(await keys("--queue", "inbox")).toEqual(["stripe/evt%2F1", "erp/2", "stripe/evt%2F3"]);
    expect(await keys("--state", "dead")).toEqual(["stripe/evt%2F1", "erp/2", expect.any(String)]);
    expect(await keys("--state", "Waiting")).toEqual(["stripe/evt%2F3", expect.any(String)]);
    expect(await keys("--state", "Failed")).toHaveLength(1);
    expect(await keys("--topic", "mail")).toHaveLength(2);
    expect(await keys("--source", "erp")).toEqual(["erp/2"]);
    expect(await keys("--error", "such")).toEqual(["stripe/evt%2F1"]);
    expect(await keys("--older-than", "1h")).toEqual([]);
    expect(await keys("--newer-than", "1h")).toHaveLength(5);
    expect((await list("--topic", "none")).out).toBe("inbox: no messages\noutbox: no messages");
  });

  it("ADD-02 ADD-07 show of an archived outbox message says where it may be; of an inbox message there is nothing to say", async () => {
    const { url, failed } = await filled();
    const run = (...args: string[]) => cli(...args, "--database", url);
    await run("dead", "archive", String(failed), "--by", "alice");
    const { code, err } = await run("show", String(failed));
    expect(code).toBe(exitCodes.failed);
    expect(err).toContain(`no message ${String(failed)} in the outbox`);
    expect(err).toContain("it is in the table of archived messages: `oncebox dead operations`");
    expect((await run("dead", "operations")).out).toMatch(
      new RegExp(`archive +outbox +alice .*keys=${failed}`),
    );
    expect((await run("show", "erp/3")).err).not.toContain("archived");
  });

  it("ADD-07 list goes on after a page where the page before says", async () => {
    const { url } = await filled();
    const list = (...args: string[]) => cli("list", "--json", ...args, "--database", url);
    const first = await list("--queue", "inbox", "--limit", "2");
    const [, hint] = /add (--queue inbox --after \d+)/.exec(first.err)!;
    const second = await list("--limit", "2", ...hint!.split(" "));
    expect([first, second].flatMap(({ out }) => jsonLines(out)).map(({ messageId }) => messageId)).toEqual([
      "evt/1",
      "2",
      "evt/3",
    ]);
    expect(second.err).toBe("");
  });

  it("ADD-07 show prints the error, and payload and header values only when they are asked for", async () => {
    const { url, failed } = await filled();
    const show = (...args: string[]) => cli("show", ...args, "--database", url);
    const { code, out } = await show("erp/2");
    expect(code).toBe(exitCodes.ok);
    expect(out).toMatch(/^lastError +timed \\u001b\[2Jout$/m);
    expect(out).toMatch(/^headers +trace \(add --payload to see the values\)$/m);
    for (const hidden of ["secret", "t-1"]) expect(out).not.toContain(hidden);
    const whole = (await show("erp/2", "--payload")).out;
    expect(whole).toMatch(/^header trace +t-1$/m);
    expect(whole).toMatch(/\n\nthe\nsecret$/);
    const { out: listed } = await cli("list", "--json", "--database", url);
    expect(JSON.parse((await show("erp/2", "--json")).out)).toMatchObject({
      phase: "dead",
      nextAttemptAt: null, // no attempt follows
    });
    for (const json of [listed, (await show("erp/2", "--json")).out]) {
      expect(json).toContain('"headerNames":["trace"]');
      for (const hidden of ["secret", "t-1"]) expect(json).not.toContain(hidden);
    }
    expect(JSON.parse((await show("erp/2", "--json", "--payload")).out).headers).toEqual({ trace: "t-1" });
    expect((await show("evt/1", "--source", "stripe")).out).toMatch(/^key +stripe\/evt%2F1$/m);
    expect(JSON.parse((await show("stripe/evt%2F1", "--json")).out)).not.toHaveProperty("payload");
    const outgoing = await show(String(failed).toUpperCase(), "--json", "--payload");
    expect(JSON.parse(outgoing.out)).toMatchObject({
      queue: "outbox",
      state: "Failed",
      naturalKey: "order-7",
      payload: "the secret",
    });
    expect((await show(String(failed))).out).toMatch(/^naturalKey +order-7$/m);
    expect(await show("erp/3")).toMatchObject({
      code: exitCodes.failed,
      out: "",
      err: expect.stringMatching(/no message erp\/3 in the inbox/),
    });
  });

  it("ADD-02 ADD-07 a key names one message, whatever is in its names; what could be two is refused", async () => {
    const file = join(folder, `${crypto.randomUUID()}.db`);
    const db = openSqlite({ file });
    await migrate(db);
    const [inbox, owner] = [createInbox(db), newOwnerToken()];
    const pairs = [
      ["erp", "eu/7"],
      ["erp/eu", "7"],
      ["erp%2Feu", "7"],
      ["erp", "eu%2F7"],
      ["erp", "eu\u200b7"],
      ["erp", "eu\\u200b7"],
      ["erp", "\u202e7\n"],
    ] as const;
    const message = { topic: "moved", payload: "x" };
    await inbox.enqueue(pairs.map(([source, messageId]) => ({ source, messageId, ...message })));
    await inbox.fail(owner, await inbox.claim({ owner }), "no");
    await db.close();
    const dead = (...args: string[]) => cli("dead", ...args, "--database", `sqlite:${file}`);
    const left = async () => {
      const { out } = await dead("list", "--json");
      return out === "" ? [] : jsonLines(out);
    };
    expect(new Set((await left()).map(({ key }) => key))).toEqual(
      new Set([
        "erp/eu%2F7",
        "erp%2Feu/7",
        "erp%252Feu/7",
        "erp/eu%252F7",
        "erp/eu%E2%80%8B7",
        "erp/eu\\u200b7",
        "erp/%E2%80%AE7%0A",
      ]),
    );
    for (const [text, meant] of [
      ["erp/eu/7", "erp/eu%2F7 or erp%2Feu/7"],
      ["erp/7%", "erp/7%25"],
      ["erp/%41", "erp/%2541"],
      ["erp/\u200b7", "erp/%E2%80%8B7"],
    ] as const)
      expect(await dead("discard", text), text).toMatchObject({
        code: exitCodes.usage,
        out: "",
        err: expect.stringContaining(`Do you mean ${meant}?`),
      });
    expect(await left()).toHaveLength(pairs.length);
    for (const { key, source, messageId } of await left()) {
      expect(await dead("discard", key), key).toMatchObject({ code: exitCodes.ok, out: `Discarded ${key}.` });
      expect((await left()).filter((one) => one.source === source && one.messageId === messageId)).toEqual(
        [],
      );
    }
    expect(await left()).toEqual([]);
  });

  it("ADD-02 ADD-07 dead lists only dead messages, and replays one by its key", async () => {
    const { url, failed } = await filled();
    const dead = (...args: string[]) => cli("dead", ...args, "--database", url);
    const listed = async () => {
      const { out } = await dead("list", "--json");
      return out === "" ? [] : jsonLines(out).map(({ key }) => key);
    };
    expect(await listed()).toEqual(["stripe/evt%2F1", "erp/2", failed]);
    const { out: table } = await dead("list", "--queue", "inbox");
    expect(table).toMatch(
      /^INBOX +TOPIC +TYPE +ATTEMPT +DIED +GROUP +ERROR\nstripe\/evt%2F1 +paid +paid +1 +\d{4}-\S+Z +[0-9a-f]{16} +no such order$/m,
    );
    const group = /erp\/2 .* ([0-9a-f]{16}) /.exec(table)![1]!;
    expect((await dead("list", "--group", group, "--json")).out).toMatch(
      /"diedAt":"\d{4}-.*"errorGroup":"[0-9a-f]{16}"/,
    );
    const { out: shown } = await dead("show", "erp/2");
    expect(shown).toMatch(/^state +Dead$/m);
    expect(shown).not.toContain("nextAttemptAt");
    expect(shown).toMatch(/^diedAt +\d{4}-\S+Z$/m);
    expect(shown).toMatch(new RegExp(`^errorGroup +${group}$`, "m"));
    expect(await dead("replay", "erp/2", "--by", "alice")).toMatchObject({
      code: exitCodes.ok,
      out: "Replayed erp/2.",
    });
    expect(await dead("replay", String(failed))).toMatchObject({ code: exitCodes.ok });
    const records = jsonLines((await dead("operations", "--json")).out);
    expect(records.map(({ action, by, done }) => ({ action, by, done }))).toEqual([
      { action: "replay", by: userInfo().username, done: 1 },
      { action: "replay", by: "alice", done: 1 },
    ]);
    expect(await listed()).toEqual(["stripe/evt%2F1"]);
    expect(await dead("replay", "erp/2")).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringMatching(/is not dead but waiting/),
    });
    expect(await dead("replay", "erp/9")).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringMatching(/is not in the inbox/),
    });
  });

  it("ADD-02 ADD-07 dead replay by conditions replays only those, and a dry run counts them", async () => {
    const { url } = await filled();
    const dead = (...args: string[]) => cli("dead", ...args, "--database", url);
    expect((await dead("replay", "--all", "--dry-run")).out).toBe("3 would be replayed.");
    expect((await dead("replay", "--error", "timed", "--dry-run", "--json")).out).toBe(
      '{"matched":1,"replayed":0}',
    );
    const { out } = await dead("replay", "--error", "timed", "--rate", "1000", "--json");
    expect(JSON.parse(out)).toEqual({
      replayed: 1,
      now: 1,
      operations: [expect.stringMatching(/^[0-9a-f-]{36}$/)],
    });
    expect((await dead("replay", "--all", "--dry-run")).out).toBe("2 would be replayed.");
    expect((await dead("replay", "--queue", "outbox", "--all")).out).toBe("Replayed 1.");
    expect((await dead("replay", "--all")).out).toBe("Replayed 1.");
    expect((await dead("list")).out).toBe("inbox: no messages\noutbox: no messages");
    expect(await dead("replay", "--all")).toEqual({
      code: exitCodes.ok,
      out: "Replayed 0.",
      err: "No dead message matches.",
    });
  });

  it("ADD-02 ADD-07 dead discard deletes one by its key, or those that match, and nothing that is not dead", async () => {
    const { url, failed } = await filled();
    const dead = (...args: string[]) => cli("dead", ...args, "--database", url);
    expect((await dead("discard", "--topic", "paid", "--dry-run")).out).toBe("1 would be discarded.");
    expect((await dead("discard", "--all", "--dry-run", "--json")).out).toBe('{"matched":3,"discarded":0}');
    expect(await dead("discard", "stripe/evt%2F3")).toMatchObject({
      code: exitCodes.failed,
      err: "stripe/evt%2F3 was not discarded. It is not dead but waiting.",
    });
    expect((await dead("operations")).out).toBe("no operations");
    expect(await dead("discard", String(failed), "--by", "alice")).toMatchObject({
      code: exitCodes.ok,
      out: `Discarded ${failed}.`,
    });
    expect((await dead("discard", "--topic", "paid", "--rate", "1000")).out).toBe("Discarded 1.");
    const keys = jsonLines((await cli("list", "--json", "--database", url)).out).map(({ key }) => key);
    expect(keys).toEqual(["erp/2", "stripe/evt%2F3", expect.any(String)]);
    expect(jsonLines((await dead("operations", "--json")).out)).toMatchObject([
      {
        queue: "inbox",
        action: "discard",
        by: userInfo().username,
        filter: { topic: "paid" },
        done: 1,
      },
      { queue: "outbox", action: "discard", by: "alice", filter: { keys: [{ id: failed }] }, done: 1 },
    ]);
  });

  it("ADD-02 ADD-07 dead archive moves one by its key, or those that match, and says so", async () => {
    const { url, failed } = await filled();
    const dead = (...args: string[]) => cli("dead", ...args, "--database", url);
    expect((await dead("archive", "--all", "--dry-run")).out).toBe("3 would be archived.");
    expect((await dead("archive", String(failed), "--by", "alice")).out).toBe(`Archived ${failed}.`);
    expect((await dead("archive", "--topic", "paid")).out).toBe("Archived 1.");
    expect(jsonLines((await dead("list", "--json")).out).map(({ key }) => key)).toEqual(["erp/2"]);
    expect((await cli("show", "stripe/evt%2F1", "--database", url)).out).toMatch(/^state +Done$/m);
    const records = jsonLines((await dead("operations", "--json")).out);
    expect(records).toMatchObject([
      { action: "archive", done: 1 },
      { action: "archive", by: "alice" },
    ]);
  });

  it("ADD-02 ADD-07 dead edit enqueues a new message, archives the dead one, and records who did it", async () => {
    const { url, failed } = await filled();
    const dead = (...args: string[]) => cli("dead", ...args, "--database", url);
    const [payload, headers] = [join(folder, "payload.txt"), join(folder, "headers.json")];
    await writeFile(payload, "corrected\n");
    await writeFile(headers, '{"trace":"t-2"}');
    const { code, out, err } = await dead("edit", "erp/2", "--payload-file", payload, "--by", "alice");
    const key = /^Replayed erp\/2 as (erp\/\S+)\. The dead message is archived\.$/.exec(out)?.[1];
    expect({ code, err }).toEqual({ code: exitCodes.ok, err: "" });
    const made = await cli("show", key!, "--payload", "--json", "--database", url);
    expect(JSON.parse(made.out)).toMatchObject({
      phase: "waiting",
      topic: "moved",
      payload: "corrected\n",
      headers: { trace: "t-1", "oncebox-edited-from": "2" },
    });
    const other = ["--headers-file", headers, "--new-topic", "letter", "--json"];
    const id = JSON.parse((await dead("edit", String(failed), ...other)).out).key;
    expect((await cli("show", id, "--payload", "--json", "--database", url)).out).toMatch(
      /"topic":"letter".*"payload":"the secret".*"trace":"t-2"/,
    );
    expect(jsonLines((await dead("operations", "--json")).out)).toMatchObject([
      { action: "edit", queue: "outbox", by: userInfo().username, done: 1 },
      { action: "edit", queue: "inbox", by: "alice", done: 1 },
    ]);
    expect(await dead("edit", "erp/2", "--payload-file", payload)).toMatchObject({
      code: exitCodes.failed,
      err: "erp/2 was not edited. It is not dead but replaced.",
    });
    const replaced = await cli("list", "--state", "replaced", "--database", url);
    expect(replaced.out).toMatch(/^erp\/2 +replaced +moved /m);
    expect((await cli("status", "--database", url)).out).toMatch(
      /^inbox .* dead 1 {2}replaced 1 {2}\(due now/m,
    );
    expect((await cli("show", "erp/2", "--database", url)).out).toMatch(/^phase +replaced$/m);
  });

  it("ADD-02 ADD-07 dead edit changes nothing when the change cannot be read, and quotes none of it", async () => {
    const { url } = await filled();
    const bad = join(folder, "bad.json");
    await writeFile(bad, Buffer.from([0x73, 0x33, 0x63, 0xff]));
    const text = join(folder, "text.json");
    await writeFile(text, "s3c");
    const list = join(folder, "list.json");
    await writeFile(list, '{"trace":["s3c"]}');
    for (const [args, problem] of [
      [[], /needs --payload-file, --headers-file or --new-topic/],
      [["--new-topic", ""], /--new-topic is empty/],
      [["--payload-file", join(folder, "none")], /cannot be read: ENOENT/],
      [["--payload-file", bad], /is not UTF-8 text/],
      [["--headers-file", text], /JSON object of texts/],
      [["--headers-file", list], /headers/],
      [["--topic", "t"], /dead edit has no option --topic/],
    ] as const) {
      const { code, err } = await cli("dead", "edit", "erp/2", ...args, "--database", url);
      expect({ args, code, err }).toEqual({
        args,
        code: exitCodes.usage,
        err: expect.stringMatching(problem),
      });
      expect(err).not.toContain("s3c");
    }
    expect((await cli("dead", "show", "erp/2", "--database", url)).out).toMatch(/^state +Dead$/m);
  });

  it("MSG-14 ADD-07 trace shows the trace of an event, found by any of its ids", async () => {
    const file = join(folder, `${crypto.randomUUID()}.db`);
    const db = openSqlite({ file });
    await migrate(db);
    const [inbox, outbox, owner] = [createInbox(db), createOutbox(db), newOwnerToken()];
    await inbox.receive({ source: "stripe", messageId: "evt_1", topic: "paid", payload: "the secret" });
    await inbox.ack(owner, await inbox.claim({ owner }));
    const id = await outbox.enqueue({ topic: "receipt", payload: "the secret", correlationId: "evt_1" });
    await outbox.fail(owner, await outbox.claim({ owner }), "410 Gone");
    await db.close();
    const trace = (...args: string[]) => cli("trace", ...args, "--database", `sqlite:${file}`);
    const { code, out } = await trace("evt_1");
    expect(code).toBe(exitCodes.ok);
    expect(out).toMatch(
      /^QUEUE .*\ninbox +stripe\/evt_1 +paid +done .*\noutbox +\S+ +receipt +dead .* 410 Gone$/,
    );
    expect(out).not.toContain("secret");
    expect(jsonLines((await trace(id, "--json")).out)).toMatchObject([
      { queue: "inbox", key: "stripe/evt_1", doneAt: expect.any(String) },
      { queue: "outbox", key: id, state: "Failed", diedAt: expect.any(String) },
    ]);
    expect(await trace("evt_2")).toMatchObject({ code: exitCodes.failed, out: "" });
  });

  it("ADD-01 ADD-07 partitions lists the keys that are held up", async () => {
    const file = join(folder, `${crypto.randomUUID()}.db`);
    const db = openSqlite({ file });
    await migrate(db);
    const [outbox, owner] = [createOutbox(db, { deadInPartition: "block" }), newOwnerToken()];
    await outbox.enqueue(["1", "2"].map((payload) => ({ topic: "mail", payload, partitionKey: "order 7" })));
    await outbox.fail(owner, await outbox.claim({ owner }), "410 Gone");
    await db.close();
    const partitions = (...args: string[]) => cli("partitions", ...args, "--database", `sqlite:${file}`);
    const { code, out } = await partitions();
    expect(code).toBe(exitCodes.ok);
    expect(out).toMatch(/^inbox: no partition key is held up\nOUTBOX KEY .*\norder 7 +dead +1 .* 410 Gone$/);
    expect(jsonLines((await partitions("--queue", "outbox", "--json")).out)).toMatchObject([
      { queue: "outbox", partitionKey: "order 7", reason: "dead", waiting: 1, head: expect.any(String) },
    ]);
  });

  it("ADD-02 ADD-07 dead groups counts by error, and a group can be replayed", async () => {
    const file = join(folder, `${crypto.randomUUID()}.db`);
    const db = openSqlite({ file });
    await migrate(db);
    const inbox = createInbox(db);
    const owner = newOwnerToken();
    const message = { source: "s", topic: "t", payload: "x" };
    await inbox.enqueue(Array.from({ length: 4 }, (_, i) => ({ ...message, messageId: String(i) })));
    const claimed = await inbox.claim({ owner });
    for (const [at, error] of ["order 1 is gone", "order 22 is gone", "", "503"].entries())
      await inbox.fail(owner, [claimed[at]!], error);
    await db.close();
    const dead = (...args: string[]) => cli("dead", ...args, "--database", `sqlite:${file}`);
    const { out } = await dead("groups");
    expect(out).toMatch(
      /^INBOX GROUP +COUNT +FIRST +LAST +EXAMPLE +ERROR\n[0-9a-f]{16} +2 .*order \d+ is gone\n/,
    );
    expect(out).toMatch(/\noutbox: no dead messages$/);
    const groups = jsonLines((await dead("groups", "--json")).out);
    expect(groups.map(({ count }) => count)).toEqual([2, 1, 1]);
    expect(groups[0]).toMatchObject({ queue: "inbox", example: expect.stringMatching(/^s\/[01]$/) });
    expect((await dead("replay", "--group", groups[0].errorGroup)).out).toBe("Replayed 2.");
    expect(jsonLines((await dead("list", "--group", "none", "--json")).out)).toMatchObject([
      { errorGroup: "none" },
    ]);
    expect((await dead("discard", "--group", "none")).out).toBe("Discarded 1.");
    expect(jsonLines((await dead("list", "--json")).out)).toMatchObject([{ key: "s/3", lastError: "503" }]);
  });

  it("ADD-07 show prints the failed attempts: when, which worker, which error", async () => {
    const { url } = await filled();
    for (const command of [["show"], ["dead", "show"]]) {
      const show = (...args: string[]) => cli(...command, "erp/2", ...args, "--database", url);
      expect((await show()).out).toMatch(
        /\n\nFAILED ATTEMPT +AT +WORKER +ERROR\n1 +\d{4}-\S+Z +\S+ +timed \\u001b\[2Jout$/,
      );
      expect(JSON.parse((await show("--json")).out).failedAttempts).toMatchObject([
        { attempt: 1, worker: expect.any(String), error: "timed \u001b[2Jout" },
      ]);
    }
    expect((await cli("show", "stripe/evt%2F3", "--database", url)).out).not.toContain("FAILED");
  });

  it("ADD-07 dead replay draws a bar on a terminal, stops at Ctrl-C, says that there is more, and is resumed", async () => {
    const { url } = await filled();
    const stopping = new AbortController();
    const drawn: string[] = [];
    const out: string[] = [];
    const code = await runCli(["dead", "replay", "--all", "--rate", "1", "--database", url], {
      env: {},
      isInteractive: true,
      out: (line) => void out.push(line),
      err: (line) => void out.push(line),
      redraw(text) {
        drawn.push(text);
        stopping.abort();
      },
      signal: stopping.signal,
    });
    expect(code).toBe(exitCodes.more);
    expect(drawn).toEqual([`replaying [${"#".repeat(10)}${".".repeat(20)}] 33 % (1 of 3)`, ""]);
    expect(out).toEqual([
      expect.stringMatching(/^Operation \S+: 2 in the inbox\.$/),
      expect.stringMatching(/^Operation \S+: 1 in the outbox\.$/),
      expect.stringMatching(
        /^Stopped before the end\. Go on with: oncebox dead replay --resume \S+ --rate 1 --database \S+$/,
      ),
      expect.stringMatching(/^Stopped before the end/),
      "Replayed 1.",
    ]);
    const dead = (...args: string[]) => cli("dead", ...args, "--database", url);
    expect((await dead("replay", "--all", "--dry-run")).out).toMatch(/^2 /);
    const table = (await dead("operations")).out;
    expect(table.match(/ unfinished /g)).toHaveLength(2);
    const ids = out.slice(0, 2).map((line) => line.slice("Operation ".length, line.indexOf(":")));
    expect(await dead("discard", "--resume", ids[0]!)).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringMatching(/is of the action replay, not discard/),
    });
    expect((await dead("replay", "--resume", ids[1]!)).out).toBe("Replayed 1.");
    const [first, second] = jsonLines((await dead("operations", "--json")).out);
    expect([first.id, first.endedAt, second.id]).toEqual([ids[0], null, ids[1]]); // unfinished first, though it is older
    expect((await dead("replay", "--resume", ids[0]!.toUpperCase())).out).toBe("Replayed 1 now, 2 in all.");
    expect((await dead("replay", "--resume", ids[0]!)).out).toBe("Replayed 0 now, 2 in all.");
    const again = await dead("replay", "--resume", ids[0]!, "--json");
    expect(JSON.parse(again.out)).toEqual({ replayed: 2, now: 0, operations: [ids[0]] });
    expect((await dead("replay", "--all", "--dry-run")).out).toMatch(/^0 /);
  });

  it("ADD-02 ADD-07 the line that goes on with an operation can be pasted into a shell, and who does it is recorded", async () => {
    const place = join(folder, "it's a $place");
    await mkdir(place);
    const { url } = await filled(join(place, "app.db"));
    const stopping = new AbortController();
    const err: string[] = [];
    await runCli(
      ["dead", "archive", "--queue", "inbox", "--all", "--rate", "1", "--by", "alice b", "--database", url],
      {
        ...{ env: {}, isInteractive: true, out: () => {}, signal: stopping.signal },
        err: (line) => void err.push(line),
        redraw: () => stopping.abort(),
      },
    );
    const line = err.find((one) => one.startsWith("Stopped"))!.replace(/^.*Go on with: /, "");
    const script = `oncebox() { printf '%s\\0' "$@"; }\n${line}`;
    const words = execFileSync("bash", ["-c", script], { encoding: "utf8" }).split("\0").slice(0, -1);
    expect(words.slice(-6)).toEqual(["--rate", "1", "--by", "alice b", "--database", url]);
    expect(await cli(...words)).toMatchObject({ code: exitCodes.ok, out: "Archived 1 now, 2 in all." });
    const operations = ["dead", "operations", "--database", url];
    const [operation] = jsonLines((await cli(...operations, "--json")).out);
    expect(operation).toMatchObject({ by: "alice b", resumedBy: "alice b", resumedAt: expect.any(String) });
    expect((await cli(...operations)).out).toMatch(
      / archive +inbox +alice b +\S+ +by alice b \S+ +\S+ +2 of 2 +all$/m,
    );
  });

  it("ADD-07 a password is not in the line that goes on with an operation", () => {
    const operation = { id: "7", endedAt: null, matched: 2, done: 1 } as unknown as Operation;
    const explained = (values: Record<string, string>): readonly string[] => {
      const err: string[] = [];
      const terminal = {
        ...{ env: {}, isInteractive: false, signal: new AbortController().signal },
        ...{ out: () => {}, err: (line: string) => void err.push(line) },
      };
      explainRest("replay", [operation], { values, positionals: [], terminal });
      return err;
    };
    const goOn = "Stopped before the end. Go on with: oncebox dead replay --resume 7";
    expect(explained({ database: "postgres://ops:s3cret@db.example.com/app", tenant: "a" })).toEqual([
      `${goOn} --database "$ONCEBOX_DATABASE_URL" --tenant a`,
      expect.stringMatching(/^Set ONCEBOX_DATABASE_URL to the URL/),
    ]);
    const named = "mssql://db.example.com/app?user=ops&password=s3cret";
    expect(explained({ database: named }).join()).not.toContain("s3cret");
    const without = {
      app: "dist/app.js",
      database: "postgres://ops@db.example.com/app",
      schema: "my schema",
    };
    expect(explained(without)).toEqual([
      `${goOn} --app dist/app.js --database postgres://ops@db.example.com/app --schema 'my schema'`,
    ]);
  });

  it("ADD-02 ADD-07 a resumed operation says how many messages others changed meanwhile", async () => {
    const { url } = await filled();
    const db = openSqlite({ file: url.slice("sqlite:".length) });
    const operators = operatorsOf(createInbox(db));
    const { id } = await operators.startOperation("replay", {}, { by: "alice" });
    await operators.discard([{ source: "erp", messageId: "2" }], { by: "bob" });
    await db.close();
    expect(await cli("dead", "replay", "--resume", id, "--database", url)).toMatchObject({
      code: exitCodes.ok,
      out: "Replayed 1.",
      err: "1 of 2 was not replayed: others changed it meanwhile.",
    });
  });

  it("ADD-07 FUN-07 of an app with tenants the commands show one tenant's messages", async () => {
    const module = (name: string) => JSON.stringify(new URL(`../../../src/${name}`, import.meta.url).href);
    const { url } = await filled();
    const tenants = [
      { id: "a", database: url },
      { id: "b", database: `sqlite:${join(folder, "none.db")}` },
    ];
    const app = join(folder, "tenants.ts");
    await writeFile(
      app,
      `import { multiTenant } from ${module("app/tenants.ts")};
      import { tenantsFromConfiguration } from ${module("app/tenants.ts")};
      export default { tenants: multiTenant({ discover: tenantsFromConfiguration(${JSON.stringify(tenants)}) }) };\n`,
    );
    const list = (...args: string[]) => cli("list", "--app", app, ...args);
    expect((await list("--tenant", "a", "--source", "erp")).out).toMatch(/erp\/2/);
    const discarded = await cli("dead", "discard", "--source", "erp", "--app", app, "--tenant", "a");
    expect(discarded).toMatchObject({ code: exitCodes.ok, out: "Discarded 1." });
    expect((await list("--tenant", "a", "--source", "erp")).out).toBe("inbox: no messages");
    for (const [args, words] of [
      [[], /Name one with --tenant/],
      [["--tenant", "c"], /no tenant "c"/],
      [["--tenant", "b"], /There is no file/],
    ] as const)
      expect(await list(...args)).toMatchObject({ code: exitCodes.usage, err: expect.stringMatching(words) });
  });

  it.each([
    [["list", "--state", "Gone"], /--state must be one of waiting, retrying, running, paused, done, dead/],
    [["list", "--queue", "both"], /--queue must be inbox or outbox/],
    [["list", "--queue", "outbox", "--source", "s"], /the outbox has no sources/],
    [["list", "--after", "3"], /--after needs --queue/],
    [["list", "--limit", "1001"], /limit must be/],
    [["list", "--older-than", "yesterday"], /such as 90s/],
    [["list", "--tenant", "a"], /an app with tenants/],
    [["show"], /KEY is missing/],
    [["show", "nokey"], /"nokey" is not a key/],
    [["list", "--limit", "0"], /--limit must be 1 or more/],
    [["dead", "list", "--limit", "0"], /--limit must be 1 or more/],
    [["dead", "groups", "--limit", "0"], /--limit must be 1 or more/],
    [["dead", "operations", "--limit", "0"], /--limit must be 1 or more/],
    [["partitions", "--limit", "0"], /--limit must be 1 or more/],
    [["dead"], /must be list or groups or show or replay or discard or archive or edit or operations/],
    [["dead", "list", "erp/2"], /takes no KEY/],
    [["dead", "list", "--dry-run"], /dead list has no option --dry-run/],
    [["dead", "replay", "--limit", "5"], /dead replay has no option --limit/],
    [["dead", "replay"], /needs KEY, a condition/],
    [["dead", "replay", "erp/2", "--topic", "t"], /not both/],
    [["dead", "replay", "erp/2", "--dry-run"], /with conditions only/],
    [["dead", "replay", "--all", "--rate", "0"], /--rate must be 1 or more/],
    [["dead", "replay", "--queue", "inbox"], /needs KEY, a condition/],
    [["dead", "archive"], /dead archive needs KEY, a condition/],
    [["dead", "list", "--group", ""], /--group is empty/],
    [["trace"], /ID is missing/],
    [["partitions", "--limit", "0"], /limit must be/],
    [["dead", "discard"], /dead discard needs KEY, a condition/],
    [["dead", "discard", "--queue", "outbox"], /dead discard needs KEY, a condition/],
    [["dead", "discard", "--error", ""], /--error is empty/],
    [["dead", "discard", "--group", ""], /--group is empty/],
    [["dead", "discard", "erp/2", "--all"], /not both/],
    [["dead", "discard", "--resume", "x", "--topic", "t"], /The rest is in the operation's record/],
    [["dead", "operations", "erp/2"], /takes no KEY/],
    [["dead", "operations", "--topic", "t"], /dead operations has no option --topic/],
  ])("ADD-07 %j is refused", async (args, words) => {
    const file = join(folder, "refused.db");
    await writeFile(file, "");
    expect(await cli(...args, "--database", `sqlite:${file}`)).toMatchObject({
      code: exitCodes.usage,
      out: "",
      err: expect.stringMatching(words),
    });
  });
});
