import { afterEach, describe, expect, it, vi } from "vitest";
import { readEnvironment } from "../../src/config/environment.js";
import {
  type App,
  type AppDefinition,
  createApp,
  createDispatcher,
  createOutbox,
  defineApp,
  type InboxMessage,
  timeBudget,
} from "../../src/index.js";
import { signWebhook } from "../../src/webhooks/index.js";
import { standard } from "../../src/webhooks/presets/standard.js";
import { type ContractHarness, skipUnless, useDatabase } from "./harness.js";
import { inSchemaOf } from "./support/database.js";
import { gate } from "./support/gate.js";

const anHour = 3_600_000;
/** No poll comes by during a test: only wake-ups. */
const withoutPolls = { pollMs: anHour, idlePollMs: anHour, reapMs: anHour, cleanupMs: anHour };
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const token = "token_of_the_tests_0123456789";

/** What an app does in one process, on any database (ADD-24). */
export function appContract(harness: ContractHarness): void {
  describe(`an app on ${harness.name}`, () => {
    const database = useDatabase(harness);
    let apps: App[] = [];
    let tables = 0;
    afterEach(async () => {
      vi.useRealTimers();
      await Promise.all(apps.map((app) => app.close()));
      apps = [];
    });

    /** An app on tables of its own, and how many of its claims have found nothing. */
    async function opened(own: Partial<AppDefinition>) {
      const { db } = database();
      let emptyClaims = 0;
      const query: typeof db.driver.query = async (statement, params, options) => {
        const rows = await db.driver.query(statement, params, options);
        if (statement.name.includes("claim") && rows.length === 0) emptyClaims++;
        return rows;
      };
      const name = `app_${++tables}`;
      const definition = defineApp({
        ...inSchemaOf(database()),
        database: () => ({ ...db, driver: { ...db.driver, query }, close: async () => {} }),
        inbox: { table: `${name}_inbox` },
        outbox: { table: `${name}_outbox` },
        logger: false,
        sources: { bank: { scheme: "standard", secrets: [secret] } },
        ...own,
      });
      const app = await createApp(definition, { environment: await readEnvironment({}) });
      apps.push(app);
      await app.migrate();
      /** Both workers have found nothing, and the next poll is an hour away. */
      const idle = () => expect.poll(() => emptyClaims).toBeGreaterThanOrEqual(2);
      return { app, idle };
    }

    const webhook = (messageId: string): Request => {
      const signed = signWebhook(standard, {
        url: "http://localhost/webhooks/bank",
        secrets: secret,
        body: JSON.stringify({ type: "invoice.paid" }),
        messageId,
        headers: { "content-type": "application/json" },
      });
      return new Request(signed.url, { ...signed, body: signed.body as string });
    };

    it("ADD-24 a webhook is handled and the message of its handler published without a poll", async () => {
      const published: string[] = [];
      const { app, idle } = await opened({
        handlers: {
          "*": {
            transactional: true,
            handle: ({ messageId }) => ({ topic: "receipt", payload: messageId }),
          },
        },
        publishers: { receipt: ({ payload }) => void published.push(payload) },
      });
      await app.start(withoutPolls);
      await idle();
      const ids = ["1", "2", "3"];
      for (const id of ids) {
        expect((await app.fetch(webhook(id))).status).toBe(200);
        await expect.poll(() => published).toContain(id);
      }
      expect(published).toEqual(ids);
    });

    it("ADD-24 a commit of the app's own stores and transactions wakes the worker", async () => {
      const published: string[] = [];
      const { app, idle } = await opened({
        handlers: {},
        publishers: { t: ({ payload }) => void published.push(payload) },
      });
      await app.start(withoutPolls);
      await idle();
      const enqueue = (payload: string, tx?: Parameters<typeof app.outbox.enqueue>[1]) =>
        app.outbox.enqueue({ topic: "t", payload }, tx);
      const ways: Readonly<Record<string, (payload: string) => Promise<unknown>>> = {
        plainly: (payload) => enqueue(payload),
        once: (payload) => app.outbox.enqueueOnce({ topic: "t", payload, naturalKey: payload }),
        "in the database's transaction": (payload) =>
          app.db.driver.transaction((tx) => enqueue(payload, { tx })),
        "in the store's transaction": (payload) => app.outbox.transaction((tx) => enqueue(payload, { tx })),
      };
      for (const [way, store] of Object.entries(ways)) {
        await store(way);
        await expect.poll(() => published).toContain(way);
      }
      const failed = app.db.driver.transaction(async (tx) => {
        await enqueue("rolled back", { tx });
        throw new Error("no");
      });
      await expect(failed).rejects.toThrow("no");
      await enqueue("the last");
      await expect.poll(() => published).toContain("the last");
      expect(published).toEqual([...Object.keys(ways), "the last"]);
    });

    it("ADD-24 an outbox made on the app's db shares a transaction with the app's inbox", async () => {
      const { app } = await opened({});
      const table = `app_${tables}_outbox`;
      const outbox = createOutbox(app.db, { ...inSchemaOf(database()), table, logger: false });
      const handlers = { "*": ({ payload }: InboxMessage) => ({ topic: "receipt", payload }) };
      const dispatcher = createDispatcher({ store: app.inbox, outbox, handlers });
      await app.inbox.receive({ source: "bank", messageId: "1", topic: "t", payload: "paid" });
      expect(await dispatcher.run(app.inbox, timeBudget(60_000))).toMatchObject({ acked: 1 });
      expect((await app.outbox.list()).messages).toMatchObject([{ topic: "receipt", payload: "paid" }]);
      const other = createOutbox({ ...database().db }, { ...inSchemaOf(database()), table });
      expect(() => createDispatcher({ store: app.inbox, outbox: other, handlers })).toThrow(
        "outbox must be on the store's database",
      );
    });

    it("ADD-24 a commit of the caller's own transaction is found, at once after wake()", async (test) => {
      skipUnless(test, database(), "severalConnections");
      const published: string[] = [];
      const { app, idle } = await opened({
        handlers: {},
        publishers: { t: ({ payload }) => void published.push(payload) },
      });
      await app.start(withoutPolls);
      await idle();
      const stored = async (payload: string) => {
        const { tx, commit } = await database().begin();
        vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }); // the commit takes no time
        await app.outbox.enqueue({ topic: "t", payload }, { tx });
        await commit();
      };
      await stored("by itself");
      vi.advanceTimersByTime(50);
      vi.useRealTimers();
      await expect.poll(() => published).toEqual(["by itself"]);
      await stored("woken");
      app.wake();
      vi.useRealTimers();
      await expect.poll(() => published).toEqual(["by itself", "woken"]);
    });

    it("ADD-24 stopping waits for running handlers and settles, and starting again goes on", async () => {
      const [begun, mayEnd] = [gate(), gate()];
      const handled: string[] = [];
      const { app } = await opened({
        handlers: {
          async slow() {
            begun.open();
            await mayEnd.promise;
            handled.push("slow");
          },
          quick: () => void handled.push("quick"),
        },
      });
      const receive = (topic: string) =>
        app.inbox.receive({ source: "s", messageId: topic, topic, payload: "" });
      await app.start(withoutPolls);
      await receive("slow");
      await begun.promise;
      const stopped = Promise.all([app.stop(), app.stop()]);
      await receive("quick");
      mayEnd.open();
      await stopped;
      expect(handled).toEqual(["slow"]);
      expect(await app.inbox.stats()).toMatchObject({ counts: { Done: 1 }, due: 1 });
      await app.start(withoutPolls);
      await expect.poll(() => handled).toEqual(["slow", "quick"]);
    });

    it("ADD-24 nothing is lost or handled twice while the app is stopped and started under load", async () => {
      const handled: string[] = [];
      const published: string[] = [];
      const { app } = await opened({
        handlers: ({ outbox }) => ({
          t: {
            transactional: true,
            async handle({ messageId }, { tx }) {
              await outbox.enqueue({ topic: "t", payload: messageId }, { tx });
              handled.push(messageId);
            },
          },
        }),
        publishers: { t: ({ payload }) => void published.push(payload) },
      });
      const ids = Array.from({ length: 120 }, (_, index) => String(index));
      const arrive = async (): Promise<void> => {
        for (const messageId of ids)
          await app.inbox.receive({ source: "s", messageId, topic: "t", payload: "" });
      };
      let hasArrived = false;
      const arriving = arrive().finally(() => {
        hasArrived = true;
      });
      while (!hasArrived) {
        await app.start(withoutPolls);
        await app.stop();
      }
      await arriving;
      await app.start(withoutPolls);
      await expect.poll(() => new Set(published).size).toBe(ids.length);
      await app.stop();
      expect(published).toHaveLength(ids.length);
      expect((await app.inbox.stats()).counts).toMatchObject({ Done: ids.length, Processing: 0 });
    });

    it("ADD-24 overlapping calls of the dispatch route handle each message once", async () => {
      const handled: string[] = [];
      const { app } = await opened({
        cron: { tokens: token },
        handlers: {
          async t({ messageId }) {
            await new Promise((resolve) => setImmediate(resolve));
            handled.push(messageId);
          },
        },
      });
      const ids = Array.from({ length: 60 }, (_, index) => String(index).padStart(2, "0"));
      await app.inbox.enqueue(ids.map((messageId) => ({ source: "s", messageId, topic: "t", payload: "" })));
      const call = async (method: string) => {
        const headers = { authorization: `Bearer ${token}` };
        const response = await app.fetch(new Request("http://localhost/dispatch", { method, headers }));
        return (await response.json()) as { dispatch: { inbox: { acked: number } } };
      };
      const reports = await Promise.all(["POST", "GET", "POST", "GET"].map(call));
      expect(handled.sort()).toEqual(ids);
      expect(reports.reduce((sum, { dispatch }) => sum + dispatch.inbox.acked, 0)).toBe(ids.length);
    });
  });
}
