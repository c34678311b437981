import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { maxBodyBytes } from "../../../src/admin/routing.js";
import { sqliteAdmin } from "../../support/admin/sqlite-admin.js";

let admin: Awaited<ReturnType<typeof sqliteAdmin>>;
beforeAll(async () => {
  admin = await sqliteAdmin({ requestsPerMinute: 100_000 });
});
afterAll(() => admin.close());

const id = "0190a5c2-7d3e-7b1a-9c4f-2e8d6a1b3c5d";
const long = "x".repeat(256);

describe("what the diagnostics API refuses", () => {
  it.each([
    ["inbox/messages?state=Nonsense", "InvalidField", "state"],
    ["inbox/messages?state=Ready", "InvalidField", "state"],
    ["outbox/messages?state=Seen", "InvalidField", "state"],
    ["outbox/messages?state=Processing", "InvalidField", "state"],
    ["inbox/messages?state=", "InvalidField", "state"],
    ["inbox/messages?topic=", "InvalidField", "topic"],
    [`inbox/messages?topic=${long}`, "InvalidField", "topic"],
    ["inbox/messages?topic=a%20", "InvalidField", "topic"],
    ["inbox/messages?topic=%00", "InvalidField", "topic"],
    ["inbox/messages?source=", "InvalidField", "source"],
    ["outbox/messages?source=stripe", "InvalidField", "source"],
    ["inbox/messages?error=", "InvalidField", "error"],
    [`inbox/messages?error=${"x".repeat(1_001)}`, "InvalidField", "error"],
    [`inbox/messages?errorGroup=${"x".repeat(65)}`, "InvalidField", "errorGroup"],
    ["inbox/messages?limit=0", "InvalidField", "limit"],
    ["inbox/messages?limit=1001", "InvalidField", "limit"],
    ["inbox/messages?limit=1e2", "InvalidField", "limit"],
    ["inbox/messages?limit=-1", "InvalidField", "limit"],
    ["inbox/messages?limit=", "InvalidField", "limit"],
    ["inbox/messages?after=x", "InvalidField", "after"],
    ["inbox/messages?after=99999999999999999999", "InvalidField", "after"],
    ["inbox/messages?olderThanMs=1.5", "InvalidField", "olderThanMs"],
    ["inbox/messages?newerThanMs=NaN", "InvalidField", "newerThanMs"],
    ["inbox/messages?topic=a&topic=b", "InvalidField", "topic"],
    ["inbox/messages?tenant=acme", "InvalidField", "tenant"],
    ["inbox/messages?__proto__=1", "UnknownField", "__proto__"],
    ["inbox/messages?sort=seq", "UnknownField", "sort"],
    ["inbox/stats?x=1", "UnknownField", "x"],
    ["inbox/failed?state=Done", "UnknownField", "state"],
    ["inbox/message?messageId=1", "MissingField", "source"],
    ["inbox/message?source=a", "MissingField", "messageId"],
    [`inbox/message?id=${id}`, "MissingField", "source"],
    ["outbox/message", "MissingField", "id"],
    ["outbox/message?id=1", "InvalidField", "id"],
    ["inbox/message?source=a&messageId=1&payload=yes", "InvalidField", "payload"],
    ["inbox/dead/groups?limit=many", "InvalidField", "limit"],
    ["inbox/dead/count?limit=1", "UnknownField", "limit"],
    ["inbox/operations?limit=0", "InvalidField", "limit"],
    ["inbox/activity?sinceMs=0", "InvalidField", "sinceMs"],
    ["inbox/activity?sinceMs=2678400001", "InvalidField", "sinceMs"],
    ["inbox/activity?buckets=501", "InvalidField", "buckets"],
    ["inbox/partitions?limit=0", "InvalidField", "limit"],
    ["inbox/unhandled?limit=0", "InvalidField", "limit"],
    ["inbox/controls?x=1", "UnknownField", "x"],
    ["correlation/evt_1?x=1", "UnknownField", "x"],
    ["correlation/a%20", "InvalidField", "id"],
    ["tenants?limit=x", "InvalidField", "limit"],
    ["tenants?after=", "InvalidField", "after"],
    ["health?verbose=1", "UnknownField", "verbose"],
  ])("MSG-14 GET %s: 400 %s %s", async (path, code, field) => {
    const { status, json } = await admin.get(path);
    expect([status, json.error.code, json.error.field]).toEqual([400, code, field]);
    expect(json.error.message).toContain(field.slice(0, 20));
  });

  const key = { source: "a", messageId: "1" };
  it.each([
    ["inbox/dead/replay", undefined, "MissingField", "keys"],
    ["inbox/dead/replay", "", "MissingField", "keys"],
    ["inbox/dead/replay", "{", "NotJson", "body"],
    ["inbox/dead/replay", "[]", "NotAnObject", "body"],
    ["inbox/dead/replay", "null", "NotAnObject", "body"],
    ["inbox/dead/replay", { keys: [] }, "InvalidField", "keys"],
    ["inbox/dead/replay", { keys: "all" }, "InvalidField", "keys"],
    ["inbox/dead/replay", { keys: Array.from({ length: 501 }, () => key) }, "InvalidField", "keys"],
    ["inbox/dead/replay", { keys: [key, { source: "a" }] }, "MissingField", "keys.1.messageId"],
    ["inbox/dead/replay", { keys: [{ ...key, source: 1 }] }, "InvalidField", "keys.0.source"],
    ["inbox/dead/replay", { keys: [{ ...key, id }] }, "UnknownField", "keys.0.id"],
    ["inbox/dead/replay", { keys: ["a/1"] }, "InvalidField", "keys.0"],
    ["outbox/dead/replay", { keys: [key] }, "MissingField", "keys.0.id"],
    ["outbox/dead/discard", { keys: [{ id: "1" }] }, "InvalidField", "keys.0.id"],
    ["inbox/dead/discard", { keys: [key], by: "me" }, "UnknownField", "by"],
    ["inbox/dead/edit", { key }, "MissingField", "changes"],
    ["inbox/dead/edit", { key, changes: {} }, "InvalidField", "changes"],
    ["inbox/dead/edit", { changes: { topic: "t" } }, "MissingField", "key"],
    ["inbox/dead/edit", { key, changes: { topic: "" } }, "InvalidField", "changes.topic"],
    ["inbox/dead/edit", { key, changes: { payload: {} } }, "InvalidField", "changes.payload"],
    [
      "inbox/dead/edit",
      '{"key":{"source":"a","messageId":"1"},"changes":{"payload":"\\ud800"}}',
      "InvalidField",
      "changes.payload",
    ],
    ["inbox/dead/edit", { key, changes: { headers: { a: 1 } } }, "InvalidField", "changes.headers"],
    ["inbox/dead/edit", { key, changes: { headers: "a" } }, "InvalidField", "changes.headers"],
    ["inbox/dead/edit", { key, changes: { state: "Done" } }, "UnknownField", "changes.state"],
    ["inbox/operations", { filter: {} }, "MissingField", "action"],
    ["inbox/operations", { action: "purge", filter: {} }, "InvalidField", "action"],
    ["inbox/operations", { action: "replay" }, "MissingField", "filter"],
    ["inbox/operations", { action: "replay", filter: [] }, "InvalidField", "filter"],
    ["inbox/operations", { action: "replay", filter: { state: "Dead" } }, "UnknownField", "filter.state"],
    [
      "inbox/operations",
      { action: "replay", filter: { olderThanMs: "1" } },
      "InvalidField",
      "filter.olderThanMs",
    ],
    [
      "inbox/operations",
      { action: "replay", filter: { olderThanMs: -1 } },
      "InvalidField",
      "filter.olderThanMs",
    ],
    ["outbox/operations", { action: "replay", filter: { source: "a" } }, "InvalidField", "filter.source"],
    [`inbox/operations/${id}/continue`, { batchSize: 0 }, "InvalidField", "batchSize"],
    [`inbox/operations/${id}/continue`, { batchSize: 1_001 }, "InvalidField", "batchSize"],
    [`inbox/operations/${id}/continue`, { resume: false }, "InvalidField", "resume"],
    [`inbox/operations/${id}/continue`, { id }, "UnknownField", "id"],
    ["inbox/operations/1/continue", {}, "InvalidField", "id"],
    ["inbox/pause", {}, "MissingField", "topic"],
    ["inbox/pause", { all: false }, "InvalidField", "all"],
    ["inbox/pause", { all: true, topic: "t" }, "InvalidField", "topic"],
    ["inbox/pause", { topic: "t", source: "s" }, "InvalidField", "topic"],
    ["outbox/pause", { source: "s" }, "InvalidField", "source"],
    ["inbox/resume", { topic: "" }, "InvalidField", "topic"],
    ["inbox/limit", { topic: "t" }, "MissingField", "perSecond"],
    ["inbox/limit", { topic: "t", perSecond: 0 }, "InvalidField", "perSecond"],
    ["inbox/limit", { topic: "t", perSecond: 1e7 }, "InvalidField", "perSecond"],
    ["inbox/limit", { topic: "t", perSecond: "1" }, "InvalidField", "perSecond"],
    ["inbox/limit", { perSecond: 1 }, "MissingField", "topic"],
    ["outbox/1/retry", undefined, "InvalidField", "id"],
    [`outbox/${id}/retry`, { ttlMs: 1 }, "UnknownField", "ttlMs"],
    [`outbox/${id}/retry?force=1`, undefined, "UnknownField", "force"],
  ])("MSG-14 ADD-02 POST %s %j: 400 %s %s", async (path, body, code, field) => {
    const { status, json } = await admin.post(path, body);
    expect([status, json?.error.code, json?.error.field]).toEqual([400, code, field]);
  });

  it("MSG-14 a body has a limit, and a path that does not exist or has another method is reported", async () => {
    const big = await admin.post("inbox/dead/replay", " ".repeat(maxBodyBytes + 1));
    expect([big.status, big.json.error.code]).toEqual([400, "BodyTooLarge"]);
    for (const path of [
      "",
      "x",
      "inbox",
      "inbox/",
      "inbox/stats/",
      "inbox/dead",
      "outbox/%ff/retry",
      "page.html",
    ])
      expect((await admin.post(path)).status, path).toBe(404);
    for (const path of ["/", "/_rf/health", "/_rf/outbox/stats", "/x_oncebox", "/_onceboxx/health"])
      expect((await admin.send(path)).status, path).toBe(404);
    const wrong = await admin.post("inbox/stats");
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
    const both = await admin.send("/_oncebox/inbox/operations", { method: "OPTIONS" });
    expect([both.status, both.headers.get("allow")]).toEqual([204, "GET, HEAD, POST, OPTIONS"]);
    expect(both.headers.get("access-control-allow-methods")).toBeNull();
    expect((await admin.send("/_oncebox/inbox/stats", { method: "HEAD" })).status).toBe(200);
  });

  it("MSG-14 no value of a request and no name that it made up is in the log", async () => {
    await admin.get("inbox/messages?topic=jane.doe@example.com&limit=0");
    const token = "xoxb-pasted-by-mistake";
    await admin.get(`inbox/messages?${token}=1&jane.doe=1`);
    await admin.get(`inbox/messages?${token}=1&${token}=2`);
    await admin.post(`inbox/pause?${token}`, { all: true });
    await admin.post("inbox/pause", { [token]: 1 });
    await admin.post("inbox/operations", { action: "replay", filter: { [token]: 1 } });
    await admin.post("inbox/dead/edit", { key, changes: { headers: { [token]: 1 } } });
    await admin.get(`inbox/stats?tenant=${token}`);
    await admin.get(`health?tenant=${token}`);
    expect(admin.lines()).toContain('"outcome":"UnknownField","status":400,"by":"alice","unknown":2');
    expect(admin.lines()).toContain(
      '"outcome":"UnknownField","status":400,"by":"alice","field":"filter","unknown":1',
    );
    expect(admin.lines()).not.toContain(token);
    await admin.post("inbox/dead/edit", { key, changes: { payload: "jane.doe" } });
    expect(admin.lines()).toContain('"outcome":"InvalidField","status":400');
    expect(admin.lines()).toContain('"outcome":"Conflict","status":409');
    expect(admin.lines()).not.toContain("jane.doe");
  });
});

describe("the files of the admin page", () => {
  it("MSG-14 are open, strict about what they load, and found by a relative path with and without a slash", async () => {
    const open = admin.as(null);
    for (const [path, type] of [
      ["/_oncebox", "text/html"],
      ["/_oncebox/", "text/html"],
      ["/prod/_oncebox", "text/html"],
      ["/_oncebox/page.js", "text/javascript"],
      ["/_oncebox/page.css", "text/css"],
    ] as const) {
      const { status, headers, body } = await open.send(path);
      expect([status, headers.get("content-type")], path).toEqual([200, `${type}; charset=utf-8`]);
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      );
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      if (type === "text/html")
        expect(body).toContain(path.endsWith("/") ? 'src="page.js"' : 'src="_oncebox/page.js"');
    }
  });
});
