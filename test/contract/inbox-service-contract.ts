import { randomUUID } from "node:crypto";
import { afterEach, describe, expect, it } from "vitest";
import { omitUndefined } from "../../src/base/defined.js";
import { createSqlInboxStore } from "../../src/inbox-store/sql-inbox-store.js";
import { migrate } from "../../src/sql/migrate.js";
import { collectLog, startService, token } from "../support/inbox-service/start-service.js";
import type { ContractHarness } from "./harness.js";

const start = Date.UTC(2026, 0, 1);
const iso = (seconds: number): string => new Date(start + seconds * 1_000).toISOString();

/** The service over real HTTP on a database. Each answer is also compared with the served OpenAPI document. */
export function inboxServiceContract(harness: ContractHarness): void {
  describe(`the inbox service on ${harness.name}`, () => {
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close();
    });

    const opened = async () => {
      const { db: own, schema, reopen, close } = await harness.open();
      closing.push(close);
      await migrate(own, omitUndefined({ schema }));
      const db = reopen();
      const log = collectLog();
      let seconds = 0;
      const clock = () => new Date(start + seconds * 1_000);
      const store = createSqlInboxStore(db, { ...omitUndefined({ schema }), clock, logger: log.logger });
      // Long, because the first calls of procedures take seconds where Babelfish stands in for SQL Server.
      const service = await startService({ store, callMs: 120_000 }, log);
      closing.push(service.close);
      return {
        ...service,
        db,
        at(second: number) {
          seconds = second;
        },
      };
    };

    it("SVC-03 SVC-07 the first caller gets Acquired, the next Busy, and one after the mark Processed, each with status 200", async () => {
      const { post } = await opened();
      const first = await post("try-begin", { key: "orders:42", owner: "worker-1" });
      expect(first.status).toBe(200);
      expect(first.json).toEqual({ status: "Acquired", leaseId: expect.any(String), expiresAt: iso(30) });
      const second = await post("try-begin", { key: "orders:42" });
      expect(second).toMatchObject({ status: 200, json: { status: "Busy", expiresAt: iso(30) } });
      const { leaseId } = first.json;
      const marked = await post("mark-processed", { key: "orders:42", leaseId });
      expect([marked.status, marked.json]).toEqual([200, { status: "Processed" }]);
      const third = await post("try-begin", { key: "orders:42" });
      expect([third.status, third.json]).toEqual([200, { status: "Processed" }]);
    });

    it("SVC-03 of 40 concurrent requests for one key exactly one gets Acquired", async () => {
      const { post } = await opened();
      const answers = await Promise.all(
        Array.from({ length: 40 }, () => post("try-begin", { key: "contended" })),
      );
      const statuses = answers.map(({ json }) => json.status as string).sort();
      expect(statuses).toEqual(["Acquired", ...Array.from({ length: 39 }, () => "Busy")]);
    });

    it("SVC-03 a request that is sent again with its own leaseId gets the same lease", async () => {
      const { post } = await opened();
      const leaseId = randomUUID();
      const first = await post("try-begin", { key: "a", leaseId });
      const again = await post("try-begin", { key: "a", leaseId });
      expect(first.json).toEqual({ status: "Acquired", leaseId, expiresAt: iso(30) });
      expect(again.json).toMatchObject({ status: "Acquired", leaseId });
      expect((await post("try-begin", { key: "a", leaseId: randomUUID() })).json.status).toBe("Busy");
      await post("mark-processed", { key: "a", leaseId });
      expect((await post("try-begin", { key: "a", leaseId })).json).toEqual({ status: "Processed" });
    });

    it("SVC-04 SVC-08 after leaseSeconds the holder can neither mark, renew nor release, and another caller acquires the key", async () => {
      const { post, get, at } = await opened();
      const { json: stale } = await post("try-begin", { key: "a", leaseSeconds: 120 });
      expect(stale.expiresAt).toBe(iso(120));
      at(119);
      expect((await post("try-begin", { key: "a" })).json.status).toBe("Busy");
      at(120);
      const lost = { status: "LeaseLost" };
      const { leaseId } = stale;
      for (const operation of ["mark-processed", "renew", "release"])
        expect((await post(operation, { key: "a", leaseId })).json, operation).toEqual(lost);
      const { json: next } = await post("try-begin", { key: "a" });
      expect(next).toMatchObject({ status: "Acquired", expiresAt: iso(150) });
      for (const operation of ["mark-processed", "renew", "release"])
        expect((await post(operation, { key: "a", leaseId })).json, operation).toEqual(lost);
      expect((await get("a")).json).toMatchObject({ status: "Leased", leaseUntil: iso(150) });
    });

    it("SVC-04 a foreign lease and an unknown key get LeaseLost; a repeated mark of the same lease gets Processed again", async () => {
      const { post } = await opened();
      const { json } = await post("try-begin", { key: "a" });
      const foreign = randomUUID();
      expect((await post("mark-processed", { key: "a", leaseId: foreign })).json.status).toBe("LeaseLost");
      expect((await post("mark-processed", { key: "b", leaseId: foreign })).json.status).toBe("LeaseLost");
      const { leaseId } = json;
      for (const _ of [1, 2])
        expect((await post("mark-processed", { key: "a", leaseId })).json.status).toBe("Processed");
      expect((await post("release", { key: "a", leaseId })).json.status).toBe("LeaseLost");
    });

    it("SVC-05 only the holder can release the key, which is then available at once", async () => {
      const { post } = await opened();
      const { json } = await post("try-begin", { key: "a" });
      expect((await post("release", { key: "a", leaseId: randomUUID() })).json.status).toBe("LeaseLost");
      expect((await post("try-begin", { key: "a" })).json.status).toBe("Busy");
      const released = await post("release", { key: "a", leaseId: json.leaseId });
      expect([released.status, released.json]).toEqual([200, { status: "Released" }]);
      expect((await post("try-begin", { key: "a" })).json.status).toBe("Acquired");
    });

    it("SVC-03 renew extends the lease, counted from now", async () => {
      const { post, at } = await opened();
      const { json } = await post("try-begin", { key: "a" });
      at(20);
      const { leaseId } = json;
      const renewed = await post("renew", { key: "a", leaseId, leaseSeconds: 60 });
      expect(renewed.json).toEqual({ status: "Renewed", expiresAt: iso(80) });
      at(79);
      expect((await post("renew", { key: "a", leaseId })).json.expiresAt).toBe(iso(109));
    });

    it("SVC-06 the report of a key has its status, attempts, firstSeen and lastSeen, and leaseUntil and owner while it is leased", async () => {
      const { post, get, at } = await opened();
      const unknown = await get("a");
      expect([unknown.status, unknown.json]).toEqual([200, { status: "Unknown" }]);
      const { json } = await post("try-begin", { key: "a", owner: "worker-1" });
      const leased = {
        status: "Leased",
        attempts: 1,
        firstSeen: iso(0),
        lastSeen: iso(0),
        leaseUntil: iso(30),
      };
      expect((await get("a")).json).toEqual({ ...leased, owner: "worker-1" });
      at(10);
      await post("release", { key: "a", leaseId: json.leaseId });
      const free = (await get("a")).json;
      expect(free).toMatchObject({ status: "Free", attempts: 1, firstSeen: iso(0) });
      expect(free.leaseUntil).toBeUndefined();
      at(20);
      const { json: second } = await post("try-begin", { key: "a" });
      await post("mark-processed", { key: "a", leaseId: second.leaseId });
      const processed = (await get("a")).json;
      expect(processed).toMatchObject({
        status: "Processed",
        attempts: 2,
        firstSeen: iso(0),
        lastSeen: iso(20),
      });
      expect(processed.leaseUntil).toBeUndefined();
      expect((await post("inspect", { key: "a" })).json).toEqual(processed);
    });

    it("SVC-06 a key may have any printable characters, in the body and percent-encoded in the path", async () => {
      const { post, get } = await opened();
      const keys = [
        "a/b c?d#e",
        "%41",
        "100%",
        "é😀 中",
        "try-begin",
        "'; drop table x; --",
        `"\\<>`,
        " a",
        "__proto__",
        "constructor",
        "\u00e9", // the same to a reader as the next one
        "e\u0301",
        "\u212a", // the sign of kelvin, a "k" to some collations
        "k",
        "\ufeffk",
        "k\u00a0",
        "k".repeat(255),
      ];
      for (const key of keys) {
        expect((await post("try-begin", { key })).json.status, key).toBe("Acquired");
        expect((await get(key)).json.status, key).toBe("Leased");
        expect((await post("inspect", { key })).json.status, key).toBe("Leased");
      }
      for (const key of [".", ".."])
        expect((await post("inspect", { key })).json, key).toEqual({ status: "Unknown" });
      // Another key, not the same one in another case or with other spaces.
      expect((await get("A/b c?d#e")).json.status).toBe("Unknown");
    });

    it("SVC-07 no token, key, owner or lease id is in the log, at any level", async () => {
      const { post, get, send, lines } = await opened();
      const key = "jane.doe@example.com";
      const { json } = await post("try-begin", { key, owner: "owner-of-it" });
      await post("renew", { key, leaseId: json.leaseId });
      await post("mark-processed", { key, leaseId: json.leaseId });
      await get(key);
      await post("try-begin", { key: `${key}\n` });
      await send(`/v1/inbox/${key}`, { headers: { authorization: "Bearer wrong-token-0123456789" } });
      expect(lines()).toContain('"message":"inbox service","call":"try-begin","outcome":"Acquired"');
      expect(lines()).toContain('"outcome":"InvalidField","status":400');
      expect(lines()).toContain('"outcome":"Unauthorized","status":401');
      for (const secret of ["jane.doe", "owner-of-it", json.leaseId, token, "wrong-token"])
        expect(lines(), secret).not.toContain(secret);
    });

    it("SVC-07 while the database is away every call gets 503 with Retry-After", async () => {
      const { post, get, db, lines } = await opened();
      await db.close();
      const held = { key: "a", leaseId: randomUUID() };
      for (const [operation, body] of [
        ["try-begin", { key: "a" }],
        ["mark-processed", held],
        ["release", held],
        ["renew", held],
        ["inspect", { key: "a" }],
      ] as const) {
        const { status, headers, json } = await post(operation, body);
        expect([status, headers.get("retry-after"), json.error.code], operation).toEqual([
          503,
          "1",
          "Unavailable",
        ]);
      }
      expect((await get("a")).status).toBe(503);
      expect(lines()).toMatch(/"level":"error","message":"inbox service".*"status":503,"reason":"\w/);
    });
  });
}
