import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../queue/owner-token.js";
import { holding } from "./settle.js";
import { deadlock, type InboxContext, keyOf, type LogLine, watched } from "./support.js";

const lines = (log: readonly LogLine[], level: LogLine["level"], message: string) =>
  log.filter((line) => line.level === level && line.message === message).map((line) => line.fields);

export function observabilityTests(context: InboxContext): void {
  describe("observability", () => {
    it("IBX-107 logs every deduplication check at debug, with the key and the answer", async () => {
      const { inbox, logs } = await context.freshInbox();
      const key = keyOf(context.message());
      await inbox.alreadyProcessed(key);
      await inbox.alreadyProcessed(key);
      await inbox.markProcessed(key);
      await inbox.alreadyProcessed(key);
      const checks = lines(logs, "debug", "already processed?");
      expect(checks).toMatchObject([false, false, true].map((processed) => ({ ...key, processed })));
      expect(logs.filter((line) => line.level === "warn")).toEqual([]);
    });

    it("IBX-108 logs every enqueued message at info, with topic, source, id and outcome", async () => {
      const { inbox, logs } = await context.freshInbox();
      const [a, b, c] = context.messages(3);
      await inbox.receive(a!);
      await inbox.enqueue([b!, c!, a!]);
      const fields = ({ topic, source, messageId }: typeof a & object) => ({ topic, source, messageId });
      expect(lines(logs, "info", "enqueue")).toMatchObject([
        { ...fields(a!), outcome: "enqueued" },
        { ...fields(b!), outcome: "enqueued" },
        { ...fields(c!), outcome: "enqueued" },
        { ...fields(a!), outcome: "duplicate" },
      ]);
    });

    it("IBX-108 says nothing of an enqueue that failed", async () => {
      const { on, logs } = await context.freshInbox();
      const broken = Object.assign(new Error("disk full"), { code: "XX000" });
      const failing = on(watched(context.database().db, [{ fail: broken }, { fail: broken }]));
      await expect(failing.receive(context.message())).rejects.toBe(broken);
      await expect(failing.enqueue(context.messages(2))).rejects.toBe(broken);
      expect(lines(logs, "info", "enqueue")).toEqual([]);
    });

    it("IBX-109 logs every claim at debug, with the number of messages, none included", async () => {
      const { inbox, owner, logs } = await context.freshInbox();
      await inbox.enqueue(context.messages(3));
      await inbox.claim({ owner, batchSize: 2 });
      await inbox.claim({ owner });
      await inbox.claim({ owner });
      expect(lines(logs, "debug", "claim").map((fields) => fields.claimed)).toEqual([2, 1, 0]);
    });

    it("IBX-112 logs a reaping at info, with the numbers of messages", async () => {
      const { inbox, clock, logs } = await holding(context, 3);
      await inbox.receive(context.message({ expiresAt: new Date(clock().getTime() + 1) }));
      clock.advance(30_001);
      await inbox.reapExpired({ batchSize: 2 });
      expect(lines(logs, "info", "reap")).toMatchObject([{ reaped: 3, dead: 1 }]);
    });

    it("IBX-112 IBX-127 logs a purge and a replay at info, and each dead message as a warning with its key, not with a handler's words", async () => {
      const { inbox, owner, clock, logs, claimed } = await holding(context, 2);
      const [done, doomed] = claimed;
      await inbox.ack(owner, [done!]);
      await inbox.fail(owner, [doomed!], "410 for card 4242");
      await inbox.replay([doomed!]);
      clock.advance(31 * 86_400_000);
      await inbox.purgeDone();
      expect(lines(logs, "warn", "message is dead")).toMatchObject([keyOf(doomed!)]);
      expect(JSON.stringify(logs)).not.toContain("4242");
      expect(lines(logs, "info", "replay")).toMatchObject([{ replayed: 1 }]);
      expect(lines(logs, "info", "purge")).toMatchObject([{ purged: 1 }]);
    });

    it("logs settlements at debug with their numbers, and a lost lease as a warning", async () => {
      const { inbox, owner, logs, claimed } = await holding(context, 3);
      const [a, b, c] = claimed;
      await inbox.renew(owner, claimed, 30_000);
      await inbox.ack(owner, [a!]);
      await inbox.abandon(owner, [b!]);
      await inbox.release(owner, [c!]);
      for (const verb of ["renew", "ack", "abandon", "release"]) {
        const changed = verb === "renew" ? 3 : 1;
        expect(lines(logs, "debug", verb), verb).toMatchObject([{ changed, lost: 0, dead: 0 }]);
      }
      expect(logs.filter((line) => line.level === "warn")).toEqual([]);
      await inbox.ack(newOwnerToken(), [c!]);
      expect(logs.filter((line) => line.level === "warn")).toMatchObject([{ fields: { lost: 1 } }]);
    });

    it("a replay of what is not dead is no warning about an owner, for a replay has none", async () => {
      const { inbox, logs, claimed } = await holding(context, 1);
      expect((await inbox.replay(claimed)).lost).toHaveLength(1);
      expect(logs.filter((line) => /owner/.test(line.message))).toEqual([]);
    });

    it("IBX-113 every line names the store", async () => {
      const { inbox, on, owner, clock, logs, claimed } = await holding(context, 4, { id: "tenant-7" });
      expect(inbox.id).toBe("tenant-7");
      const hash = (byte: number) => new Uint8Array([byte]);
      await inbox.receive(context.message({ messageId: "same", hash: hash(1) }));
      await inbox.receive(context.message({ messageId: "same", hash: hash(2) }));
      await inbox.alreadyProcessed({ source: "test", messageId: "same" }, hash(3));
      await inbox.ack(owner, [claimed[0]!]);
      await inbox.ack(newOwnerToken(), [claimed[1]!]);
      await inbox.abandon(owner, [claimed[1]!], { error: "503" });
      await inbox.fail(owner, [claimed[2]!], "410");
      await inbox.replay([claimed[2]!]);
      clock.advance(31 * 86_400_000);
      await inbox.reapExpired();
      await inbox.purgeDone();
      const { db } = context.database();
      const alarm = () => {
        throw new Error("the alarm is broken");
      };
      const failing = on(watched(db, [{ fail: deadlock(db) }]), { onDead: alarm });
      await failing.fail(owner, await failing.claim({ owner, batchSize: 1 }), "no");

      expect(new Set(logs.map((line) => line.level))).toEqual(new Set(["debug", "info", "warn", "error"]));
      for (const line of logs) expect(line.fields.store, line.message).toBe("tenant-7");
    });

    it("IBX-113 a store without a name of its own goes by its database's, which tells no secret", async () => {
      const { inbox, logs } = await context.freshInbox();
      await inbox.receive(context.message());
      expect(inbox.id).toBe(context.database().db.id);
      expect(logs.map((line) => line.fields.store)).toEqual([inbox.id]);
      expect(inbox.id).not.toMatch(/password|@/i);
    });

    it("IBX-127 no payload and no header is logged in a whole cycle, whatever goes wrong", async () => {
      const secret = "4111-1111-1111-1111";
      const { inbox, on, owner, clock, logs } = await context.freshInbox({
        retry: { maxAttempts: 2 },
        onDead: ({ message }) => {
          throw new Error(`no alarm for ${secret} ${JSON.stringify(message)}`);
        },
      });
      const card = () => context.message({ payload: secret, headers: { authorization: secret } });
      const first = { ...card(), hash: new Uint8Array([1]) };
      await inbox.receive(first);
      await inbox.receive(first);
      expect(await inbox.receive({ ...first, hash: new Uint8Array([2]) })).toBe("conflict");
      await inbox.enqueue([card(), card(), card(), card()]);
      await inbox.alreadyProcessed(keyOf(first), new Uint8Array([3]));
      const { db } = context.database();
      const fault = deadlock(db);
      const quoting = Object.assign(Object.create(fault) as Error, {
        detail: `Failing row contains (${secret})`,
      });
      await on(watched(db, [{ fail: quoting }])).receive(card());
      const broken = Object.assign(new Error(`duplicate key (${secret})`), { code: "XX000" });
      await expect(on(watched(db, [{ fail: broken }])).receive(card())).rejects.toBe(broken);

      const claimed = await inbox.claim({ owner, batchSize: 4 });
      await inbox.renew(owner, claimed, 30_000);
      await inbox.ack(owner, [claimed[0]!]);
      await inbox.abandon(owner, [claimed[1]!], { error: "503" });
      await inbox.fail(owner, [claimed[2]!], "410");
      await inbox.release(owner, [claimed[3]!]);
      await inbox.ack(newOwnerToken(), claimed);
      await inbox.replay(claimed);
      await inbox.markProcessed(keyOf(claimed[3]!));
      for (let round = 0; round < 8; round++) {
        clock.advance(120_000);
        await inbox.claim({ owner });
        await inbox.reapExpired();
      }
      await inbox.list();
      await inbox.stats();
      clock.advance(31 * 86_400_000);
      await inbox.purgeDone();

      expect(lines(logs, "error", "onDead failed").length).toBeGreaterThan(0);
      expect(lines(logs, "warn", "database fault, trying again")).toHaveLength(1);
      expect(logs.length).toBeGreaterThan(20);
      expect(JSON.stringify(logs)).not.toContain(secret);
    });

    it("IBX-127 no error of ours quotes the payload or the headers", async () => {
      const secret = "4111-1111-1111-1111";
      const { inbox, logs } = await context.freshInbox();
      const wrong: Record<string, unknown>[] = [
        { payload: `${secret}\uD800` },
        { payload: { card: secret } },
        { payload: [secret] },
        { payload: Buffer.from(secret) },
        { headers: { authorization: [secret] } },
        { headers: [secret] },
        { headers: secret },
        { hash: secret },
        { dueAt: secret },
        { expiresAt: secret },
        { topic: "" },
      ];
      for (const part of wrong) {
        const message = { ...context.message({ payload: secret }), ...part };
        for (const call of [() => inbox.receive(message), () => inbox.enqueue([message])]) {
          const error = await call().then(
            () => new Error("it was taken"),
            (rejected: Error) => rejected,
          );
          expect(error.name, String(Object.keys(part))).toBe("InvalidArgumentError");
          expect(error.message).not.toContain(secret);
        }
      }
      expect(JSON.stringify(logs)).not.toContain(secret);
    });

    it("IBX-127 an error of the database's about a row does not quote the payload in its message, nor in the log", async () => {
      const secret = "4111-1111-1111-1111";
      const { inbox, names, logs } = await context.freshInbox();
      const database = context.database();
      const refuse =
        database.db.dialect.name === "sqlite"
          ? `create trigger "${names.table}Refused" before insert on ${names.message}
             when new.payload like '%1111%' begin select raise(abort, 'refused'); end`
          : `alter table ${names.message} add constraint "${names.table}Refused" check (payload not like '%1111%')`;
      await database.raw(refuse);
      const message = context.message({ payload: secret });
      for (const call of [() => inbox.receive(message), () => inbox.enqueue([message])]) {
        const error = await call().then(
          () => new Error("it was taken"),
          (rejected: Error) => rejected,
        );
        expect(error.message).toMatch(/refused/i);
        expect(error.message).not.toContain(secret);
      }
      expect(JSON.stringify(logs)).not.toContain(secret);
    });
  });
}
