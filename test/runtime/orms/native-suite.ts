import { describe, expect, it } from "vitest";
import { readEnvironment } from "../../../src/config/environment.js";
import {
  createApp,
  createDispatcher,
  type DatabaseKind,
  type defineApp,
  type SqlExecutor,
  timeBudget,
} from "../../../src/index.js";

/** A database with a table `orders (id integer primary key)` beside oncebox's own tables. */
export interface NativeDatabase {
  readonly url: string;
  readonly schema?: string;
  /** The server needs a schema that is adapted to it: it has its tables already. */
  readonly isMigrated?: boolean;
  countOrders(): Promise<number>;
  close(): Promise<void>;
}

export interface NativeOptions<Kind extends DatabaseKind> {
  readonly define: (typeof defineApp)[Kind];
  readonly open: () => Promise<NativeDatabase>;
  /** With the library, on the transaction's own client. */
  readonly insertOrder: (tx: SqlExecutor<Kind>, id: number, schema: string) => Promise<unknown>;
}

/** What an author's own library does inside of an app's transactional handlers. */
export function nativeSuite<Kind extends DatabaseKind>(name: string, options: NativeOptions<Kind>): void {
  describe(`${name} on tx.native`, () => {
    /** An app whose one handler writes an order with the library, around a statement of ours. */
    const withApp = async (
      test: (
        app: Awaited<ReturnType<typeof createApp>>,
        data: NativeDatabase,
        also: { readonly fails: Set<string>; passTime(): void },
      ) => Promise<void>,
    ): Promise<void> => {
      const data = await options.open();
      const schema = data.schema ?? "";
      const fails = new Set<string>();
      let now = Date.parse("2026-01-02T03:04:05Z");
      const passTime = () => {
        now += 600_000;
      };
      const settings = { clock: () => new Date(now) };
      const define = options.define as typeof defineApp;
      const app = await createApp(
        define({
          ...(data.schema === undefined ? {} : { schema: data.schema }),
          database: data.url,
          inbox: settings,
          outbox: settings,
          dispatch: { concurrency: 1 },
          handlers: ({ outbox }) => ({
            "order.placed": {
              transactional: true,
              async handle({ messageId }, { tx }) {
                const own = tx as SqlExecutor<Kind>;
                await options.insertOrder(own, Number(messageId), schema);
                await outbox.enqueue({ topic: "order.ship", data: { messageId } }, { tx: own });
                await options.insertOrder(own, Number(messageId) + 100, schema);
                if (fails.has(messageId)) throw new Error("the business says no");
              },
            },
          }),
        }),
        { environment: await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" }) },
      );
      try {
        if (!data.isMigrated) await app.migrate();
        await test(app, data, { fails, passTime });
      } finally {
        await app.close();
        await data.close();
      }
    };
    const receive = (app: Awaited<ReturnType<typeof createApp>>, messageId: string) =>
      app.inbox.receive({ source: "s", messageId, topic: "order.placed", data: {} });
    const sent = async (app: Awaited<ReturnType<typeof createApp>>) =>
      (await app.outbox.list()).messages.map(({ payload }) => payload);

    it("ADD-04 ADD-06 its rows, the outgoing message and the acknowledgement commit together", () =>
      withApp(async (app, data) => {
        await receive(app, "1");
        expect(await app.dispatch(timeBudget(60_000))).toMatchObject({ inbox: { acked: 1 } });
        expect(await data.countOrders()).toBe(2);
        expect(await sent(app)).toEqual(['{"messageId":"1"}']);
        expect((await app.inbox.get({ source: "s", messageId: "1" }))?.state).toBe("Done");
      }));

    it("ADD-04 ADD-06 none of them is there when the handler throws, and the next attempt writes them once", () =>
      withApp(async (app, data, { fails, passTime }) => {
        fails.add("1");
        await receive(app, "1");
        const { inbox } = await app.dispatch(timeBudget(60_000));
        expect(inbox).toMatchObject({ acked: 0 });
        expect([await data.countOrders(), await sent(app)]).toEqual([0, []]);
        fails.clear();
        passTime(); // the back-off is over
        expect(await app.dispatch(timeBudget(60_000))).toMatchObject({ inbox: { acked: 1 } });
        expect([await data.countOrders(), await sent(app)]).toEqual([2, ['{"messageId":"1"}']]);
      }));

    it("ADD-04 ADD-06 a failing statement of the library rolls everything back", () =>
      withApp(async (app, data) => {
        await receive(app, "1");
        await app.dispatch(timeBudget(60_000));
        await receive(app, "101"); // the order 101 exists
        expect(await app.dispatch(timeBudget(60_000))).toMatchObject({ inbox: { acked: 0 } });
        expect([await data.countOrders(), (await sent(app)).length]).toEqual([2, 1]);
      }));

    it("ADD-04 native is refused after the end of its transaction", () =>
      withApp(async (app) => {
        await receive(app, "1");
        let kept: SqlExecutor | undefined;
        const dispatcher = createDispatcher({
          store: app.inbox,
          logger: false,
          handlers: {
            "order.placed": {
              transactional: true,
              handle(_message, { tx }) {
                kept = tx;
              },
            },
          },
        });
        expect(await dispatcher.run(app.inbox, timeBudget(60_000))).toMatchObject({ acked: 1 });
        expect(() => kept!.native).toThrow(/has ended/);
      }));
  });
}
