import { afterEach, describe, expect, it } from "vitest";
import { readEnvironment } from "../../../src/config/environment.js";
import { InvalidArgumentError } from "../../../src/errors.js";
import {
  type App,
  type AppDefinition,
  type CronReport,
  createApp,
  defineApp,
  newOwnerToken,
} from "../../../src/index.js";
import { testClock } from "../../contract/harness.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";

const token = "token_of_the_tests_0123456789";

let apps: App[] = [];
afterEach(async () => {
  await Promise.all(apps.map((app) => app.close()));
  apps = [];
});

async function running(definition: AppDefinition, env: NodeJS.ProcessEnv = {}): Promise<App> {
  const environment = await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent", ...env });
  const app = await createApp(
    defineApp({ database: "sqlite::memory:", cron: { tokens: token }, ...definition }),
    { environment },
  );
  apps.push(app);
  await app.migrate();
  return app;
}

const call = (app: App, init: RequestInit = {}) =>
  app.fetch(new Request("http://localhost/dispatch", { method: "POST", ...init }));
const bearer = (secret: string) => ({ headers: { authorization: `Bearer ${secret}` } });
const report = async (response: Response) => (await response.json()) as CronReport;

describe("the dispatch route", () => {
  it("ADD-24 needs a right token, and says nothing to others", async () => {
    let handled = 0;
    const app = await running({ handlers: { "*": () => void handled++ } });
    await app.inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" });
    const refused = [{}, bearer("wrong_token_of_the_tests_01"), { headers: { authorization: token } }];
    for (const init of refused) {
      const response = await call(app, init);
      expect([response.status, await response.text()]).toEqual([401, ""]);
      expect(response.headers.get("www-authenticate")).toBe('Bearer realm="oncebox dispatch"');
    }
    expect(handled).toBe(0);
    expect((await call(app, bearer(token))).status).toBe(200);
    expect(handled).toBe(1);
  });

  it("ADD-24 takes POST, and the GET of a cron that sends that; no cache keeps the answer", async () => {
    const app = await running({});
    for (const method of ["GET", "POST"]) {
      const response = await call(app, { method, ...bearer(token) });
      expect([response.status, response.headers.get("cache-control")]).toEqual([200, "no-store"]);
    }
    for (const method of ["PUT", "DELETE", "HEAD"]) {
      const response = await call(app, { method, ...bearer(token) });
      expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, POST, OPTIONS"]);
    }
  });

  it("ADD-24 several tokens are valid during a rotation, from the environment as well", async () => {
    const tokens = { from: "env", name: "CRON_SECRET" } as const;
    const app = await running({ cron: { tokens } }, { CRON_SECRET: `${token}, new_${token}` });
    for (const one of [token, `new_${token}`]) expect((await call(app, bearer(one))).status).toBe(200);
    expect((await call(app, bearer(`${token},`))).status).toBe(401);
  });

  it("ADD-24 a token that is too short is refused when the app is made, and a wrong definition before", async () => {
    const environment = await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" });
    const definition: AppDefinition = { database: "sqlite::memory:", cron: { tokens: "short" } };
    await expect(createApp(definition, { environment })).rejects.toThrow(
      /^cron: tokens: one has fewer than 16 characters\.$/,
    );
    const made = (cron: object) =>
      createApp({ ...definition, cron: { tokens: token, ...cron } }, { environment });
    await expect(made({ timeMs: 0 })).rejects.toThrow(/^cron: timeMs must be more than 0 .*not 0\.$/);
    await expect(made({ time: 5 })).rejects.toThrow(/^cron: unknown option time\. Known: tokens, timeMs\.$/);
    for (const cron of [{}, [], "text", null])
      expect(() => defineApp({ cron } as unknown as AppDefinition)).toThrow(
        /^defineApp: cron must be an object with tokens\.$/,
      );
  });

  it("ADD-24 reaps, dispatches what that has freed, and cleans up once an hour", async () => {
    const clock = testClock(Date.now() - 40 * 86_400_000);
    const handled: string[] = [];
    const app = await running({
      inbox: { clock },
      handlers: { t: ({ messageId }) => void handled.push(messageId) },
    });
    await app.inbox.receive({ source: "s", messageId: "crashed", topic: "t", payload: "" });
    await app.inbox.claim({ owner: newOwnerToken(), leaseMs: 1_000 });
    clock.advance(60 * 60_000);
    const first = await report(await call(app, bearer(token)));
    expect(first).toMatchObject({
      reap: { inbox: { done: 1 }, outbox: { done: 0 } },
      dispatch: { inbox: { acked: 1 }, outbox: null, more: false },
      cleanup: { inbox: { done: 0 } },
    });
    const second = await report(await call(app, bearer(token)));
    expect(second).toMatchObject({ dispatch: { inbox: { acked: 0 } }, cleanup: null });
    expect(handled).toEqual(["crashed"]);
  });

  it("ADD-24 answers within its time and says that there is more", async () => {
    const app = await running({
      cron: { tokens: token, timeMs: 1_000 },
      dispatch: { concurrency: 1, batchSize: 5, reserveMs: 300 },
      handlers: { t: () => new Promise((resolve) => setTimeout(resolve, 100)) },
    });
    const ids = Array.from({ length: 40 }, (_, index) => String(index));
    await app.inbox.enqueue(ids.map((messageId) => ({ source: "s", messageId, topic: "t", payload: "" })));
    const { dispatch, cleanup } = await report(await call(app, bearer(token)));
    expect(dispatch).toMatchObject({ more: true, inbox: { stopped: "time", failed: 0, lost: 0 } });
    expect(cleanup).toBeNull();
    const { counts, due } = await app.inbox.stats();
    expect([counts.Done, due]).toEqual([dispatch.inbox!.acked, ids.length - dispatch.inbox!.acked]);
  });

  it("ADD-24 a database that is away is 503, and the log has neither token nor query", async () => {
    const lines: LogLine[] = [];
    const app = await running({ logger: recordingLogger(lines), handlers: {} });
    await app.db.close();
    const response = await call(app, bearer(token));
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
    const [line] = lines.filter(({ message }) => message === "cron");
    expect(line).toMatchObject({ level: "error", fields: { outcome: "Unavailable", status: 503 } });
    expect(JSON.stringify(lines)).not.toContain(token);
  });

  it("ADD-24 closing the app ends a call that runs, and settles what it handles", async () => {
    let begun = (): void => {};
    const started = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const app = await running({
      handlers: {
        async t(_message, { signal }) {
          begun();
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          signal.throwIfAborted();
        },
      },
      cron: { tokens: token, timeMs: 2_000 },
    });
    await app.inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" });
    const called = call(app, bearer(token));
    await started;
    await app.close();
    expect(await report(await called)).toMatchObject({ dispatch: { inbox: { stopped: "aborted" } } });
  });
});

describe("the calls of an app", () => {
  it("ADD-24 take a time, a budget or nothing, and refuse what they do not know", async () => {
    const app = await running({ handlers: {} });
    expect(await app.dispatch()).toMatchObject({ inbox: { stopped: "drained" } });
    expect(await app.dispatch({ timeMs: 5_000 })).toMatchObject({ more: false });
    expect(await app.reap({ timeMs: 5_000 })).toMatchObject({ inbox: { more: false } });
    expect(await app.cleanup({ signal: AbortSignal.abort() })).toMatchObject({ inbox: { more: true } });
    const wrong = { ms: 5 } as unknown as { timeMs: number };
    await expect(app.dispatch(wrong)).rejects.toThrow(
      /^dispatch: unknown option ms\. Known: timeMs, signal\.$/,
    );
    await expect(app.start({ pollms: 5 } as object)).rejects.toThrow(InvalidArgumentError);
    await expect(app.start({ notify: true })).rejects.toThrow("notify needs PostgreSQL");
    await expect(createApp({}, { env: {} } as object)).rejects.toThrow(/^createApp: unknown option env\./);
  });

  it("ADD-24 a second start is refused until the app has stopped", async () => {
    const app = await running({ handlers: {} });
    await app.stop();
    await app.start();
    await expect(app.start()).rejects.toThrow(/started already\. Await stop\(\)/);
    await app.stop();
    await app.start();
  });
});
