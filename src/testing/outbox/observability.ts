import { expect, it } from "vitest";
import { newOwnerToken } from "../../queue/owner-token.js";
import type { ContractHarness } from "../harness.js";
import { deadlock, type LogLine, messages, outboxTheme, watched } from "./support.js";

const lines = (log: readonly LogLine[], level: LogLine["level"], message: string) =>
  log.filter((line) => line.level === level && line.message === message).map((line) => line.fields);

export function observabilityContract(harness: ContractHarness): void {
  outboxTheme(harness, "observability", ({ database, box }) => {
    it("OBX-085 logs every enqueued message at info, with topic and correlation id", async () => {
      const { outbox, log } = await box();
      const id = await outbox.enqueue({ topic: "order.created", payload: "x", correlationId: "c-1" });
      const ids = await outbox.enqueue([
        { topic: "a", payload: "x", correlationId: "c-2" },
        { topic: "b", payload: "x" },
      ]);
      const caller = await database().begin();
      await outbox.enqueue({ topic: "in.tx", payload: "x" }, { tx: caller.tx });
      await caller.commit();

      expect(lines(log, "info", "enqueue")).toMatchObject([
        { topic: "order.created", correlationId: "c-1", id },
        { topic: "a", correlationId: "c-2", id: ids[0] },
        { topic: "b", correlationId: null, id: ids[1] },
        { topic: "in.tx", correlationId: null },
      ]);
    });

    it("OBX-085 says nothing of an enqueue that failed", async () => {
      const { on, log } = await box();
      const broken = Object.assign(new Error("disk full"), { code: "XX000" });
      const failed = on(watched(database().db, [{ fail: broken }])).enqueue({ topic: "t", payload: "" });
      await expect(failed).rejects.toBe(broken);
      expect(lines(log, "info", "enqueue")).toEqual([]);
    });

    it("OBX-086 logs every claim at debug, with the number of messages, none included", async () => {
      const { outbox, owner, log } = await box();
      await outbox.enqueue(messages(3));
      await outbox.claim({ owner });
      await outbox.claim({ owner });
      expect(lines(log, "debug", "claim").map((fields) => fields.claimed)).toEqual([3, 0]);
    });

    it("OBX-089 logs a reaping at info, with the number of messages", async () => {
      const { outbox, held, clock, log } = await box();
      await held(3);
      await outbox.enqueue(messages(1, { expiresAt: new Date(clock().getTime() + 1) }));
      clock.advance(30_001);
      await outbox.reapExpired({ batchSize: 2 });
      expect(lines(log, "info", "reap")).toMatchObject([{ reaped: 3, dead: 1 }]);
    });

    it("OBX-090 every line names the store", async () => {
      const { outbox, on, owner, held, clock, log } = await box({ id: "tenant-7" });
      const claimed = await held(4);
      await outbox.ack(owner, [claimed[0]!]);
      await outbox.ack(newOwnerToken(), [claimed[1]!]);
      await outbox.abandon(owner, [claimed[1]!], { error: "503" });
      await outbox.fail(owner, [claimed[2]!], "410");
      await outbox.replay([claimed[2]!]);
      clock.advance(31 * 86_400_000);
      await outbox.reapExpired();
      await outbox.purgeDone();
      await on(watched(database().db, [{ fail: deadlock(database().db) }])).stats();

      expect(log.length).toBeGreaterThan(8);
      expect(new Set(log.map((line) => line.level))).toEqual(new Set(["debug", "info", "warn"]));
      for (const line of log) expect(line.fields.store, line.message).toBe("tenant-7");
    });

    it("OBX-090 a store without a name of its own goes by its database's", async () => {
      const { outbox, log } = await box();
      await outbox.enqueue({ topic: "t", payload: "" });
      expect(outbox.id).toBe(database().db.id);
      expect(log[0]!.fields.store).toBe(database().db.id);
      expect(outbox.id).not.toMatch(/postgres:postgres|password|:.*@/i);
    });

    it("OBX-106 no payload and no header is ever logged, whatever goes wrong", async () => {
      const secret = "4111-1111-1111-1111";
      const { outbox, on, owner, clock, log } = await box({
        retry: { maxAttempts: 2 },
        onDead: ({ message }) => {
          throw new Error(`no alarm for ${JSON.stringify(message)}`);
        },
      });
      const message = { topic: "card", payload: secret, headers: { authorization: secret } };
      await outbox.enqueue(message);
      await outbox.enqueue([message, message, message]);
      const caller = await database().begin();
      await outbox.enqueue(message, { tx: caller.tx });
      await caller.commit();
      const { db } = database();
      const fault = Object.assign(deadlock(db), { detail: `Failing row contains (${secret})` });
      await on(watched(db, [{ fail: fault }])).enqueue(message);
      const broken = Object.assign(new Error(`duplicate key (${secret})`), { code: "XX000" });
      await expect(on(watched(db, [{ fail: broken }])).enqueue(message)).rejects.toBe(broken);
      const refused = outbox.enqueue({ ...message, payload: `${secret}\uD800` });
      await expect(refused).rejects.not.toThrow(secret);

      const claimed = await outbox.claim({ owner, batchSize: 3 });
      await outbox.ack(owner, [claimed[0]!]);
      await outbox.abandon(owner, [claimed[1]!], { error: "503" });
      await outbox.fail(owner, [claimed[2]!], "410");
      await outbox.ack(newOwnerToken(), claimed);
      await outbox.replay(claimed);
      for (let round = 0; round < 6; round++) {
        clock.advance(120_000);
        await outbox.claim({ owner });
        await outbox.reapExpired();
      }
      clock.advance(31 * 86_400_000);
      await outbox.purgeDone();
      expect(log.some((line) => line.message === "onDead failed")).toBe(true);
      expect(log.length).toBeGreaterThan(20);
      expect(JSON.stringify(log)).not.toContain(secret);
    });
  });
}
