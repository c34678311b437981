import { afterEach, describe, expect, it } from "vitest";
import type { AdminTenants } from "../../../src/admin/create-admin.js";
import { sqliteStores } from "../../support/admin/sqlite-admin.js";
import { startAdmin } from "../../support/admin/start-admin.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

type Stores = Awaited<ReturnType<typeof sqliteStores>>;

async function startedWith(ids: readonly string[], quarantined: readonly string[] = []) {
  const all = new Map<string, Stores>();
  for (const id of ids) {
    const stores = await sqliteStores();
    closing.push(() => stores.db.close());
    all.set(id, stores);
  }
  const tenants: AdminTenants = {
    list: async () => [...all.keys()],
    find: async (id) => all.get(id),
    isQuarantined: (id) => quarantined.includes(id),
  };
  const admin = await startAdmin({ tenants });
  closing.push(admin.close);
  return { ...admin, all };
}

describe("the diagnostics API of an app with tenants", () => {
  it("MSG-14 ?tenant= picks the tenant: without it 400, with an unknown one 404", async () => {
    const { get, post, all, lines } = await startedWith(["acme", "globex"]);
    await all.get("acme")!.inbox.receive({ source: "a", messageId: "1", topic: "t", payload: "" });
    expect((await get("inbox/stats?tenant=acme")).json.due).toBe(1);
    expect((await get("inbox/stats?tenant=globex")).json.due).toBe(0);
    const missing = await get("inbox/stats");
    expect([missing.status, missing.json.error.field]).toEqual([400, "tenant"]);
    expect((await get("inbox/stats?tenant=")).json.error.field).toBe("tenant");
    expect((await get("inbox/stats?tenant=initech")).status).toBe(404);
    expect(lines()).toContain('"outcome":"NotFound","status":404');
    expect(lines()).not.toContain("initech");
    const key = { source: "a", messageId: "1" };
    await all.get("acme")!.inbox.markDead(key, "broken");
    const replayed = await post("inbox/dead/replay?tenant=acme", { keys: [key] });
    expect(replayed.json.changed).toEqual([key]);
    expect(lines()).toMatch(/"level":"info".*"route":"POST inbox\/dead\/replay".*"tenant":"acme"/);
  });

  it("MSG-14 tenants are listed in pages with due messages, age and state; one that is away does not hide the others", async () => {
    const { get, post, all } = await startedWith(["c", "a", "b"], ["c"]);
    await all.get("a")!.outbox.enqueue({ topic: "t", payload: "" });
    await all.get("b")!.db.close();
    const { json } = await get("tenants?limit=2");
    const empty = { due: 0, oldestDueAgeMs: null, pausedMessages: 0, dead: 0, paused: false };
    expect(json).toEqual({
      tenants: [
        {
          tenant: "a",
          state: "active",
          reachable: true,
          inbox: empty,
          outbox: { due: 1, oldestDueAgeMs: expect.any(Number), pausedMessages: 0, dead: 0, paused: false },
        },
        { tenant: "b", state: "unreachable", reachable: false, reason: expect.any(String) },
      ],
      cursor: "b",
    });
    await all.get("a")!.inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" });
    await post("inbox/pause?tenant=a", { all: true });
    expect((await get("tenants?limit=1")).json.tenants).toMatchObject([
      {
        tenant: "a",
        state: "paused",
        inbox: { due: 0, pausedMessages: 1, paused: true },
        outbox: { paused: false },
      },
    ]);
    const rest = await get("tenants?after=b");
    expect(rest.json).toMatchObject({ tenants: [{ tenant: "c", state: "quarantined" }], cursor: null });
    const health = await get("health");
    expect(health.status).toBe(503);
    expect(health.json.stores).toMatchObject([
      { tenant: "a", reachable: true },
      { tenant: "b", reachable: false },
      { tenant: "c", reachable: true },
    ]);
  });
});
