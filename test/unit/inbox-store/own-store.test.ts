import { afterEach, describe, expect, it } from "vitest";
import { createInboxService } from "../../../src/inbox-store/http/inbox-service.js";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { startService } from "../../support/inbox-service/start-service.js";

const db = openSqlite({ file: ":memory:" });
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

describe("a store of one's own behind the service", () => {
  it("SVC-07 one that never answers and ignores its signal: 503 after callMs", async () => {
    const store: LeasingInboxStore = { ...createSqlInboxStore(db), tryBegin: () => new Promise(() => {}) };
    const service = await startService({ store, callMs: 20 });
    closing.push(service.close);
    const { status, json } = await service.post("try-begin", { key: "a" });
    expect([status, json.error.code]).toEqual([503, "Unavailable"]);
    expect(service.lines()).toContain('"status":503,"reason":"TimeoutError');
  });

  it("SVC-07 a method that only an object's prototype has is 405, as any other", async () => {
    const { respond } = createInboxService({ store: createSqlInboxStore(db), auth: "none" });
    for (const method of ["constructor", "toString", "__proto__"]) {
      const url = "http://localhost/v1/inbox/a";
      const request = { method, url, path: "/v1/inbox/a", headers: new Headers(), body: null };
      expect((await respond(request)).status, method).toBe(405);
    }
  });
});
