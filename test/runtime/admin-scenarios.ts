import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { allRequests } from "../support/admin/all-requests.js";
import { adminClient } from "../support/admin/start-admin.js";
import { openScenario, type Scenario } from "./scenarios.js";

/** The functions of test/runtime/admin-app.ts in a runtime. */
export interface AdminFunctions {
  /** What stands before /_oncebox. */
  readonly url: string;
  logs(): string;
  stop(): Promise<void>;
}

export interface AdminRuntime {
  readonly name: string;
  /** False where it cannot be had. */
  readonly available?: boolean;
  start(env: Readonly<Record<string, string>>): Promise<AdminFunctions>;
}

export const adminApp = fileURLToPath(new URL("admin-app.ts", import.meta.url));
const token = "alice:scenario-secret-0123456789";
const wrong = "alice:another-secret-0123456789";

/** What the diagnostics API does alike wherever it runs. */
export function describeAdminFunctions(runtime: AdminRuntime): void {
  describe.skipIf(runtime.available === false)(`the diagnostics API in ${runtime.name}`, () => {
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close();
    });

    const opened = async (): Promise<Scenario> => {
      const scenario = await openScenario();
      closing.push(() => scenario.close());
      return scenario;
    };
    const started = async (env: Readonly<Record<string, string>>) => {
      const functions = await runtime.start({
        ONCEBOX_ADMIN_TOKENS: token,
        ONCEBOX_LOG_LEVEL: "info",
        ...env,
      });
      closing.push(() => functions.stop());
      return { as: (one: string | null) => adminClient(functions.url, one), ...functions };
    };

    it("MSG-14 ADD-02 every route without, with a wrong and with the right token; the page", async () => {
      const { as, logs } = await started((await opened()).env);
      const right = as(token);
      for (const { method, path, body, status } of allRequests) {
        const init = { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
        const without = await as(null).send(`/_oncebox/${path}`, init);
        expect(without.status, path).toBe(path === "health" ? 200 : 401);
        const answer = await right.send(`/_oncebox/${path}`, init);
        expect(answer.status, path).toBe(status);
        expect(answer.headers.get("cache-control")).toBe("no-store");
      }
      for (const path of ["/_oncebox", "/_oncebox/"]) {
        const page = await as(null).send(path);
        expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
        expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
      }
      const script = await as(null).send("/_oncebox/page.js");
      expect([script.status, script.headers.get("content-type")]).toEqual([
        200,
        "text/javascript; charset=utf-8",
      ]);

      const codes: number[] = [];
      for (let n = 0; n < 11; n++) codes.push((await as(wrong).get("inbox/stats")).status);
      expect(codes).toEqual([...Array(10).fill(401), 429]);
      expect(logs()).toContain("POST inbox/dead/edit");
      for (const hidden of [token, wrong, "scenario-secret", "another-secret"])
        expect(logs(), hidden).not.toContain(hidden);
    });

    it("MSG-14 ADD-02 shows a dead letter, its payload on request, and replays it with a record of who did", async () => {
      const { env, inbox } = await opened();
      const key = { source: "stripe", messageId: "evt_1/ü%41" };
      await inbox.receive({ ...key, topic: "payment", payload: '{"card":"4111"}' });
      await inbox.markDead(key, "card declined");
      const { as, logs } = await started({
        ...env,
        ONCEBOX_ADMIN_TOKENS: JSON.stringify({ from: "env", name: "KEPT_TOKENS" }),
        KEPT_TOKENS: `bob:kept-secret-0123456789, ${token}`,
      });
      const { get, post } = as(token);
      const query = new URLSearchParams(key);
      expect((await get("inbox/failed")).json.messages).toMatchObject([
        { ...key, lastError: "card declined" },
      ]);
      expect((await get(`inbox/message?${query}`)).json).not.toHaveProperty("payload");
      expect((await get(`inbox/message?${query}&payload=true`)).json.payload).toBe('{"card":"4111"}');
      const operation = await as("bob:kept-secret-0123456789").post("inbox/operations", {
        action: "replay",
        filter: { topic: "payment" },
      });
      expect(operation.json).toMatchObject({ by: "bob", matched: 1 });
      const ended = await post(`inbox/operations/${operation.json.id}/continue`, { batchSize: 10 });
      expect(ended.json).toMatchObject({ done: 1, endedAt: expect.any(String) });
      expect((await inbox.get(key))!.state).not.toBe("Dead");
      expect(logs()).not.toContain("4111");
    });

    it("MSG-14 a database that is away: 503 with Retry-After, still alive, and no address in the answer", async () => {
      const { env, line } = await opened();
      const { as } = await started(env);
      const { get } = as(token);
      expect((await get("inbox/stats")).status).toBe(200);
      await line.cut();
      const away = await get("inbox/stats");
      expect([away.status, away.headers.get("retry-after"), away.json.error.code]).toEqual([
        503,
        "1",
        "Unavailable",
      ]);
      const health = await get("health");
      expect([health.status, health.json.stores[0].reachable]).toEqual([503, false]);
      const { hostname, port, password } = new URL(env.ONCEBOX_DATABASE_URL!);
      for (const { body } of [away, health])
        for (const hidden of [`${hostname}:${port}`, ...(password === "" ? [] : [password])])
          expect(body).not.toContain(hidden);
      expect((await as(null).get("health")).status).toBe(200);
      await line.mend();
      await expect.poll(async () => (await get("inbox/stats")).status, { timeout: 20_000 }).toBe(200);
    });

    it("MSG-14 tokens that cannot be read: 503, and neither 401 nor an open API", async () => {
      const { env } = await opened();
      const { as, logs } = await started({ ...env, ONCEBOX_ADMIN_TOKENS: "alice:short" });
      expect((await as(token).get("inbox/stats")).status).toBe(503);
      expect((await as(null).get("inbox/stats")).status).toBe(401);
      expect(logs()).not.toContain("alice:short");
    });
  });
}
