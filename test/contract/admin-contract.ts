import { afterEach, describe, expect, it } from "vitest";
import { omitUndefined } from "../../src/base/defined.js";
import { createInbox } from "../../src/inbox/inbox.js";
import { createOutbox } from "../../src/outbox/outbox.js";
import { newOwnerToken } from "../../src/queue/leases.js";
import { migrate } from "../../src/sql/migrate.js";
import { startAdmin } from "../support/admin/start-admin.js";
import type { ContractHarness } from "./harness.js";

const secret = "4111-1111-1111-1111";

/** What the diagnostics API reads and changes in a database. */
export function adminContract(harness: ContractHarness): void {
  describe(`the diagnostics API on ${harness.name}`, () => {
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close();
    });

    const opened = async () => {
      const { db: first, schema, reopen, close } = await harness.open();
      closing.push(close);
      await migrate(first, omitUndefined({ schema }));
      const db = reopen();
      closing.push(() => db.close());
      const options = {
        ...omitUndefined({ schema }),
        retry: { maxAttempts: 2 },
        deadInPartition: "block",
      } as const;
      const inbox = createInbox(db, options);
      const outbox = createOutbox(db, options);
      const admin = await startAdmin({ stores: { inbox, outbox } });
      closing.push(admin.close);
      return { ...admin, inbox, outbox, db };
    };
    type Opened = Awaited<ReturnType<typeof opened>>;

    /** Dead messages of the inbox, `m0` first, which failed with the error that belongs to their number. */
    const withDead = async (count: number, errorOf = (_: number) => "card declined"): Promise<Opened> => {
      const parts = await opened();
      const { inbox } = parts;
      const ids = Array.from({ length: count }, (_, index) => `m${index}`);
      await inbox.enqueue(
        ids.map((messageId) => ({
          source: "stripe",
          messageId,
          topic: "payment",
          payload: JSON.stringify({ card: secret }),
          headers: { "x-secret": "header-value" },
        })),
      );
      const owner = newOwnerToken();
      const claimed = await inbox.claim({ owner, batchSize: Math.max(1, count) });
      for (const message of claimed)
        await inbox.fail(owner, [message], errorOf(Number(message.messageId.slice(1))));
      return parts;
    };

    it("MSG-14 ADD-02 lists and shows messages; payload and header values only on request, which is logged", async () => {
      const { get, lines, inbox } = await withDead(2);
      await inbox.receive({ source: "stripe", messageId: "fresh", topic: "payment", payload: secret });
      const stats = await get("inbox/stats");
      expect(stats.json).toMatchObject({ counts: { Processing: 1, Dead: 2 }, due: 1 });
      const { json } = await get("inbox/messages?state=dead&source=stripe&error=declined&limit=1");
      expect(json.messages).toMatchObject([
        {
          source: "stripe",
          messageId: "m0",
          state: "Dead",
          lastError: "card declined",
          headerNames: ["x-secret"],
        },
      ]);
      const next = await get(`inbox/messages?state=Dead&limit=1&after=${json.cursor}`);
      expect(next.json.messages).toMatchObject([{ messageId: "m1" }]);
      const failed = (await get("inbox/failed")).json.messages;
      expect(failed).toHaveLength(2);
      expect(failed[0]).toMatchObject({
        diedAt: expect.any(String),
        errorGroup: expect.stringMatching(/^[0-9a-f]{16}$/),
      });
      expect((await get("inbox/messages")).json.messages).toHaveLength(3);
      const one = await get("inbox/message?source=stripe&messageId=m0");
      expect(one.json).toMatchObject({
        payloadBytes: JSON.stringify({ card: secret }).length,
        attempts: [{ attempt: 1, error: "card declined" }],
      });
      for (const { body } of [await get("inbox/messages"), one, next, await get("inbox/dead/groups")])
        for (const hidden of [secret, "header-value"]) expect(body).not.toContain(hidden);
      expect(lines()).not.toContain('"level":"info","message":"admin"');
      const whole = await get("inbox/message?source=stripe&messageId=m0&payload=true");
      expect(JSON.parse(whole.json.payload)).toEqual({ card: secret });
      expect(whole.json.headers).toEqual({ "x-secret": "header-value" });
      expect(lines()).toMatch(
        /"level":"info","message":"admin","route":"GET inbox\/message",.*"by":"alice".*"payload":true,"source":"stripe","messageId":"m0"/,
      );
      expect(lines()).not.toContain(secret);
      expect((await get("inbox/message?source=stripe&messageId=none")).status).toBe(404);
    });

    it("ADD-02 groups, counts, replays, discards and edits dead messages, and no others", async () => {
      const { get, post, inbox } = await withDead(5, (n) =>
        n < 3 ? `timeout after ${n} ms` : "card declined",
      );
      const { groups } = (await get("inbox/dead/groups")).json;
      expect(groups).toMatchObject([{ count: 3 }, { count: 2, error: "card declined" }]);
      const group = encodeURIComponent(groups[0].errorGroup);
      expect((await get(`inbox/dead/count?errorGroup=${group}`)).json).toEqual({ count: 3 });
      const keyOf = (messageId: string) => ({ source: "stripe", messageId });
      const replayed = await post("inbox/dead/replay", { keys: [keyOf("m0"), keyOf("none")] });
      expect(replayed.json).toMatchObject({ changed: [keyOf("m0")], lost: [keyOf("none")] });
      expect(await inbox.get(keyOf("m0"))).toMatchObject({ state: "Processing", attempt: 0 });
      const discarded = await post("inbox/dead/discard", { keys: [keyOf("m1"), keyOf("m0")] });
      expect(discarded.json).toMatchObject({ changed: [keyOf("m1")], lost: [keyOf("m0")] });
      expect(await inbox.get(keyOf("m1"))).toBeNull();
      const edited = await post("inbox/dead/edit", {
        key: keyOf("m2"),
        changes: { payload: "{}", headers: null },
      });
      expect(await inbox.get(edited.json.key)).toMatchObject({
        payload: "{}",
        headers: { "oncebox-edited-from": "m2" },
        correlationId: "m2",
      });
      const again = await post("inbox/dead/edit", { key: keyOf("m2"), changes: { payload: "{}" } });
      expect([again.status, again.json.error.code]).toEqual([409, "Conflict"]);
      const { operations } = (await get("inbox/operations")).json;
      expect(operations).toMatchObject([
        { action: "edit", by: "alice", done: 1 },
        { action: "discard", by: "alice", matched: 2, done: 1 },
        { action: "replay", by: "alice", matched: 2, done: 1 },
      ]);
      const archived = await post("inbox/dead/archive", { keys: [keyOf("m3")] });
      expect(archived.json.changed).toEqual([keyOf("m3")]);
      const { json: rest } = await post("inbox/operations", { action: "archive", filter: {} });
      const ended = await post(`inbox/operations/${rest.id}/continue`);
      expect(ended.json).toMatchObject({ action: "archive", done: 1, endedAt: expect.any(String) });
      expect(await inbox.get(keyOf("m3"))).toMatchObject({ state: "Done" });
      const listed = async (state: string) =>
        (await get(`inbox/messages?state=${state}`)).json.messages.map(
          ({ messageId }: { messageId: string }) => messageId,
        );
      expect(await listed("archived")).toEqual(["m3", "m4"]);
      expect(await listed("replaced")).toEqual(["m2"]);
      expect(await listed("done")).toEqual([]);
      expect((await get("inbox/stats")).json.phases).toMatchObject({ archived: 2, replaced: 1, done: 0 });
      const shown = await get("inbox/message?source=stripe&messageId=m2");
      expect(shown.json).toMatchObject({ phase: "replaced", state: "Done" });
      const trace = (await get("correlation/m2")).json.steps.map(({ phase }: { phase: string }) => phase);
      expect(trace).toEqual(["replaced", "waiting"]);
      expect((await get("outbox/messages?state=archived")).json.error).toMatchObject({ field: "state" });
    });

    it("ADD-02 replays by filter in batches, records who did it, and lets another caller continue", async () => {
      const { post, get, send, inbox } = await withDead(25, (n) => (n < 20 ? "timeout" : "other"));
      const started = await send("/_oncebox/inbox/operations", {
        method: "POST",
        headers: { "x-oncebox-by": encodeURIComponent("Zoë 🙂") },
        body: JSON.stringify({ action: "replay", filter: { error: "timeout", olderThanMs: 0 } }),
      });
      expect(started.json).toMatchObject({ by: "alice (Zoë 🙂)", matched: 20, done: 0, endedAt: null });
      const path = `inbox/operations/${started.json.id}/continue`;
      expect((await post(path, { batchSize: 8 })).json).toMatchObject({ done: 8, endedAt: null });
      const resumed = await send(`/_oncebox/${path}`, {
        method: "POST",
        headers: { "x-oncebox-by": "bob" },
        body: JSON.stringify({ batchSize: 4, resume: true }),
      });
      const who = { by: "alice (Zoë 🙂)", resumedBy: "alice (bob)", resumedAt: expect.any(String) };
      expect(resumed.json).toMatchObject({ done: 12, ...who });
      const last = await post(path);
      expect(last.json).toMatchObject({ done: 20, ...who, endedAt: expect.any(String) });
      expect((await post(path)).json).toMatchObject({ done: 20 });
      expect((await inbox.stats()).counts).toMatchObject({ Dead: 5 });
      expect((await get("inbox/operations?limit=1")).json.operations).toHaveLength(1);
      const unknown = await post("inbox/operations/00000000-0000-4000-8000-000000000000/continue");
      expect(unknown.status).toBe(409);
    });

    it("MSG-14 failed messages of the outbox are listed and retried one by one; the /_rf names are a service's", async () => {
      const { get, send, outbox } = await opened();
      const id = await outbox.enqueue({ topic: "receipt", payload: secret });
      const owner = newOwnerToken();
      await outbox.fail(owner, await outbox.claim({ owner }), "smtp is away");
      const waiting = await outbox.enqueue({ topic: "receipt", payload: secret });
      for (const base of ["/_oncebox", "/api/_oncebox"]) {
        expect((await send(`${base}/outbox/stats`)).json.counts).toMatchObject({ Failed: 1 });
        expect((await send(`${base}/outbox/failed`)).json.messages).toMatchObject([
          { id, lastError: "smtp is away" },
        ]);
        expect((await send(`${base}/inbox/stats`)).json.counts).toMatchObject({ Dead: 0 });
      }
      for (const path of ["health", "outbox/stats", "outbox/failed", "inbox/stats"])
        expect((await send(`/_rf/${path}`)).status, path).toBe(404);
      const retry = (one: string) => send(`/_oncebox/outbox/${one}/retry`, { method: "POST" });
      expect((await retry(id)).json).toEqual({ changed: [{ id }] });
      expect(await outbox.get({ id })).toMatchObject({ state: "Ready" });
      expect((await retry(waiting)).status).toBe(409);
      expect((await retry("00000000-0000-4000-8000-000000000000")).status).toBe(404);
      expect((await retry("x")).json.error).toMatchObject({ code: "InvalidField", field: "id" });
      expect((await get(`outbox/message?id=${id.toUpperCase()}`)).json).toMatchObject({ id, attempts: [{}] });
    });

    it("ADD-17 pauses, limits and resumes, and shows who did it", async () => {
      const { get, post, inbox, outbox } = await opened();
      await inbox.receive({ source: "stripe", messageId: "1", topic: "payment", payload: secret });
      await outbox.enqueue({ topic: "receipt", payload: secret });
      const owner = newOwnerToken();
      const paused = await post("inbox/pause", { source: "stripe" });
      expect(paused.json.control).toMatchObject({
        scope: "source",
        name: "stripe",
        paused: true,
        by: "alice",
      });
      expect((await post("outbox/pause", { all: true })).status).toBe(200);
      expect([...(await inbox.claim({ owner })), ...(await outbox.claim({ owner }))]).toEqual([]);
      const controls = await get("inbox/controls");
      expect(controls.json.controls).toMatchObject([
        { scope: "source", name: "stripe", waiting: 1, perSecond: null },
      ]);
      const limited = await post("outbox/limit", { topic: "receipt", perSecond: 0.5 });
      expect(limited.json.control).toMatchObject({ scope: "topic", name: "receipt", perSecond: 0.5 });
      expect((await get("outbox/controls")).json.controls).toHaveLength(2);
      expect((await post("outbox/limit", { topic: "receipt", perSecond: null })).json).toEqual({
        control: null,
      });
      expect((await post("inbox/resume", { source: "stripe" })).json).toEqual({ wasPaused: true });
      expect((await post("outbox/resume", { all: true })).json).toMatchObject({ wasPaused: true });
      expect((await post("outbox/resume", { all: true })).json).toMatchObject({ wasPaused: false });
      expect(await inbox.claim({ owner })).toHaveLength(1);
      expect(await outbox.claim({ owner })).toHaveLength(1);
      const records = async (queue: string) => (await get(`${queue}/operations`)).json.operations.reverse();
      expect(await records("inbox")).toMatchObject([
        { queue: "inbox", action: "pause", by: "alice", filter: { source: "stripe" } },
        { queue: "inbox", action: "resume", by: "alice", filter: { source: "stripe" } },
      ]);
      expect(await records("outbox")).toMatchObject([
        { action: "pause", by: "alice", filter: {} },
        { action: "limit", by: "alice", filter: { topic: "receipt", perSecond: 0.5 } },
        { action: "limit", by: "alice", filter: { topic: "receipt", perSecond: null } },
        { action: "resume", by: "alice", filter: {} },
      ]);
    });

    it("ADD-02 ADD-17 shows and filters waiting, retrying, running, paused, done and dead messages", async () => {
      const { get, post, inbox, outbox } = await opened();
      const owner = newOwnerToken();
      const leaseMs = 3_600_000;
      const message = { source: "stripe", topic: "payment", payload: secret };
      const add = (messageId: string, topic = "payment") => inbox.receive({ ...message, messageId, topic });
      const claimed = async (messageId: string) => {
        await add(messageId);
        return inbox.claim({ owner, leaseMs });
      };
      await inbox.ack(owner, await claimed("done"));
      await inbox.fail(owner, await claimed("dead"), "no");
      await inbox.abandon(owner, await claimed("retrying"), { delayMs: leaseMs });
      await claimed("running");
      await add("waiting");
      await add("paused", "mail");
      await post("inbox/pause", { topic: "mail" });
      const phasesOf = async (path: string) =>
        (await get(path)).json.messages.map((one: { messageId: string; phase: string }) => [
          one.messageId,
          one.phase,
        ]);
      const all = ["done", "dead", "retrying", "running", "waiting", "paused"];
      const untouched = await phasesOf("inbox/messages");
      expect(untouched).toEqual(all.map((one) => [one, one]));
      for (const phase of all)
        expect(await phasesOf(`inbox/messages?state=${phase}&limit=1`), phase).toEqual([[phase, phase]]);
      await inbox.claim({ owner, leaseMs }); // sets the paused one aside, and leases the waiting one
      const held = (await phasesOf("inbox/messages")).slice(4);
      expect(held).toEqual([
        ["waiting", "running"],
        ["paused", "paused"],
      ]);
      expect((await get("inbox/message?source=stripe&messageId=paused")).json).toMatchObject({
        key: "stripe/paused",
        phase: "paused",
      });
      expect((await get("correlation/paused")).json.steps).toMatchObject([{ phase: "paused" }]);
      await outbox.enqueue({ topic: "receipt", payload: secret });
      await post("outbox/pause", { all: true });
      expect((await get("outbox/messages?state=paused")).json.messages).toMatchObject([{ phase: "paused" }]);
      expect((await get("outbox/messages?state=waiting")).json.messages).toEqual([]);
    });

    it("MSG-14 shows activity over time, blocked partition keys, and the trace of one event through both queues", async () => {
      const { get, inbox, outbox } = await opened();
      const id = "evt_1/ü%41 x";
      const message = { source: "stripe", topic: "payment", payload: secret, partitionKey: "customer-1" };
      await inbox.receive({ ...message, messageId: id });
      await inbox.receive({ ...message, messageId: "behind" });
      const sent = await outbox.enqueue({ topic: "receipt", payload: secret, correlationId: id });
      const owner = newOwnerToken();
      await inbox.fail(owner, await inbox.claim({ owner }), "card declined");
      const { json: activity } = await get("inbox/activity?sinceMs=3600000&buckets=2");
      expect(activity).toMatchObject({
        truncated: false,
        buckets: [{ enqueued: 0 }, { enqueued: 2, dead: 1, unfinished: 1 }],
      });
      const { json: blocked } = await get("inbox/partitions");
      expect(blocked.partitions).toMatchObject([
        { partitionKey: "customer-1", reason: "dead", waiting: 1, head: { source: "stripe", messageId: id } },
      ]);
      const trace = await get(`correlation/${encodeURIComponent(id)}`);
      expect(trace.json.steps).toMatchObject([
        { queue: "inbox", key: { messageId: id }, state: "Dead", lastError: "card declined" },
        { queue: "outbox", key: { id: sent }, state: "Ready" },
      ]);
      expect(trace.body).not.toContain(secret);
      expect((await get("correlation/none")).json).toEqual({ steps: [] });
    });

    it("ADD-12 MSG-14 lists topics whose messages were acknowledged without a handler", async () => {
      const { get, inbox } = await opened();
      expect((await get("inbox/unhandled")).json).toEqual({ topics: [] });
      await inbox.recordUnhandled([{ topic: "stripe.customer.created", messages: 3 }]);
      expect((await get("inbox/unhandled?limit=5")).json).toEqual({
        topics: [{ topic: "stripe.customer.created", messages: 3, lastSeenAt: expect.any(String) }],
      });
      expect((await get("outbox/unhandled")).json).toEqual({ topics: [] });
    });

    it("MSG-14 health is ok without a token; with one it has the version and the state of each store, and is 503 when one is away", async () => {
      const { get, as, db, inbox } = await opened();
      await inbox.receive({ source: "a", messageId: "1", topic: "t", payload: secret });
      const queue = { due: 0, oldestDueAgeMs: null, pausedMessages: 0, dead: 0, paused: false };
      const well = await get("health");
      expect([well.status, well.json]).toEqual([
        200,
        {
          status: "ok",
          version: expect.stringMatching(/^\d+\.\d+\.\d+/),
          stores: [
            {
              reachable: true,
              inbox: { ...queue, due: 1, oldestDueAgeMs: expect.any(Number) },
              outbox: queue,
            },
          ],
        },
      ]);
      await db.close();
      const away = await get("health");
      expect([away.status, away.json.status, away.json.stores]).toEqual([
        503,
        "failing",
        [{ reachable: false, reason: expect.any(String) }],
      ]);
      expect((await as(null).get("health")).json).toEqual({ status: "ok" });
      const failed = await get("inbox/stats");
      expect([failed.status, failed.json.error.code]).toEqual([503, "Unavailable"]);
    });
  });
}
