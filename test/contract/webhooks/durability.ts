import { describe, expect, it } from "vitest";
import { omitUndefined } from "../../../src/base/defined.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import { migrate } from "../../../src/sql/migrate.js";
import { createWebhookRoute } from "../../../src/webhooks/route.js";
import type { CallerTransaction, TestDatabase } from "../harness.js";
import type { InboxContext } from "../inbox/support.js";
import { claimAll } from "../queue/support.js";
import { isBabelfish, rowCount } from "../support/database.js";
import { watched } from "../support/watched.js";
import { batchScheme, batchSecrets, delivery, event, send, stripeEvent, stripeRoute } from "./support.js";

/** Begins a transaction that blocks all writes to the table until it ends. */
async function lockOut(database: TestDatabase, table: string): Promise<CallerTransaction> {
  const transaction = await database.begin(); // on SQLite this blocks other writers by itself
  const { name } = database.db.dialect;
  if (name === "postgres") await transaction.run(`lock table ${table} in access exclusive mode`);
  if (name === "sqlserver") await transaction.run(`select top (1) 1 from ${table} with (tablockx, holdlock)`);
  return transaction;
}

export function durabilityTests({ database, freshInbox }: InboxContext): void {
  describe("a webhook that was not stored is accepted when it is sent again", () => {
    it("FUN-01 a database that does not respond in time gives 503, and the retry is accepted", async (test) => {
      test.skip(await isBabelfish(database()), "Babelfish ignores lock hints");
      const { inbox, names, owner } = await freshInbox();
      const lock = await lockOut(database(), names.message);
      const refused = await stripeRoute(inbox, { receiveMs: 300 })(stripeEvent("evt_1"));
      expect(refused.status).toBe(503);
      expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
      expect(await refused.json()).toEqual({ error: "unavailable" });
      await lock.rollback();
      // The aborted statement may get the lock before it is cancelled. The retry is then a duplicate.
      const retried = await send(stripeRoute(inbox), stripeEvent("evt_1"));
      expect(retried).toEqual({ status: 200, outcome: expect.stringMatching(/^(enqueued|duplicate)$/) });
      expect(await rowCount(database(), names.message)).toBe(1);
      expect(await claimAll(inbox, owner)).toMatchObject([{ messageId: "evt_1" }]);
    });

    it("FUN-01 a batch that cannot be stored in time gives 503, and the retry stores each event once", async (test) => {
      test.skip(await isBabelfish(database()), "Babelfish ignores lock hints");
      const { inbox, names, owner } = await freshInbox();
      const route = (receiveMs: number) =>
        createWebhookRoute({
          inbox,
          sources: { acme: { scheme: batchScheme, secrets: batchSecrets } },
          receiveMs,
        });
      const batch = [event(1), event(2), null]; // with one that is no event it takes a transaction
      const lock = await lockOut(database(), names.message);
      expect((await route(300)(delivery(batch))).status).toBe(503);
      await lock.rollback();
      expect((await route(60_000)(delivery(batch))).status).toBe(200);
      expect(await rowCount(database(), names.message)).toBe(3);
      const claimed = await claimAll(inbox, owner);
      expect(claimed.map(({ messageId }) => messageId).sort()).toEqual(["e1", "e2"]);
    });

    it("FUN-01 a write that fails gives 503 and stores nothing, and the retry is accepted", async () => {
      const { on, inbox, names, logs } = await freshInbox();
      const broken = Object.assign(new Error("disk full while storing card 4242"), { code: "XX000" });
      const route = stripeRoute(on(watched(database().db, [{ fail: broken }])));
      expect(await send(route, stripeEvent("evt_1", { card: "4242" }))).toEqual({
        status: 503,
        outcome: undefined,
      });
      expect(await rowCount(database(), names.message)).toBe(0);
      expect(JSON.stringify(logs)).not.toContain("4242");
      expect(await send(route, stripeEvent("evt_1"))).toEqual({ status: 200, outcome: "enqueued" });
      expect((await inbox.stats()).due).toBe(1);
    });

    it("FUN-01 a commit whose response is lost gives 503, and the retry is a duplicate", async () => {
      const { on, inbox, owner } = await freshInbox();
      const lost = Object.assign(new Error("the answer is lost"), { code: "XX000" });
      const route = stripeRoute(on(watched(database().db, [{ loseAnswer: lost }])));
      expect((await send(route, stripeEvent("evt_1"))).status).toBe(503);
      expect(await send(route, stripeEvent("evt_1"))).toEqual({ status: 200, outcome: "duplicate" });
      expect(await claimAll(inbox, owner)).toHaveLength(1);
    });

    it("FUN-01 a missing schema gives 503, and after the migration the retry is accepted", async () => {
      const { db, schema: name } = database();
      const schema = omitUndefined({ schema: name });
      const table = "LateInbox";
      const route = stripeRoute(createInbox(db, { ...schema, table }));
      expect((await send(route, stripeEvent("evt_1"))).status).toBe(503);
      await migrate(db, { ...schema, inbox: table, outbox: false });
      expect(await send(route, stripeEvent("evt_1"))).toEqual({ status: 200, outcome: "enqueued" });
    });
  });
}
