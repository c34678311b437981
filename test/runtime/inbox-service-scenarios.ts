import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { documentChecks } from "../support/inbox-service/check-answer.js";
import { serviceClient } from "../support/inbox-service/start-service.js";
import { openScenario, type Scenario } from "./scenarios.js";

/** The functions of test/runtime/inbox-service-app.ts in a runtime. */
export interface ServiceFunctions {
  /** What stands before /v1. */
  readonly url: string;
  logs(): string;
  stop(): Promise<void>;
}

export interface ServiceRuntime {
  readonly name: string;
  /** False where it cannot be had. */
  readonly available?: boolean;
  start(env: Readonly<Record<string, string>>): Promise<ServiceFunctions>;
}

export const serviceApp = fileURLToPath(new URL("inbox-service-app.ts", import.meta.url));
const tokens = ["scenario-token-0123456789", "other-token-0123456789"] as const;

/** What the service does alike wherever it runs. */
export function describeServiceFunctions(runtime: ServiceRuntime): void {
  describe.skipIf(runtime.available === false)(`the inbox service in ${runtime.name}`, () => {
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
      const functions = await runtime.start({ INBOX_SERVICE_TOKENS: tokens.join("\n"), ...env });
      closing.push(() => functions.stop());
      const document = JSON.parse(await (await fetch(`${functions.url}/v1/openapi.json`)).text());
      const client = (token: string = tokens[0]) =>
        serviceClient(functions.url, documentChecks(document), token);
      return { ...client(), client, logs: functions.logs };
    };

    it("SVC-03 SVC-04 SVC-05 SVC-06 SVC-07 leases, marks, releases and reports, as its document says", async () => {
      const { post, get, send, client, logs } = await started((await opened()).env);
      const key = "orders:billing:order.placed:jane@example.com/ü";
      const { json } = await post("try-begin", { key, owner: "worker-1", leaseSeconds: 60 });
      expect(json).toMatchObject({ status: "Acquired" });
      const { leaseId } = json;
      expect((await post("try-begin", { key })).json.status).toBe("Busy");
      expect((await get(key)).json).toMatchObject({ status: "Leased", attempts: 1, owner: "worker-1" });
      expect((await post("renew", { key, leaseId })).json.status).toBe("Renewed");
      expect((await post("release", { key, leaseId })).json.status).toBe("Released");
      expect((await post("mark-processed", { key, leaseId })).json.status).toBe("LeaseLost");
      const again = await client(tokens[1]).post("try-begin", { key });
      const marked = await post("mark-processed", { key, leaseId: again.json.leaseId });
      expect(marked.json).toEqual({ status: "Processed" });
      expect((await post("inspect", { key })).json).toMatchObject({ status: "Processed", attempts: 2 });

      expect((await post("try-begin", { key, leaseSeconds: 1 })).json.error.field).toBe("leaseSeconds");
      expect((await client("wrong-token-0123456789").get(key)).status).toBe(401);
      const bare = await send("/v1/inbox/try-begin", { method: "POST", body: JSON.stringify({ key }) });
      expect([bare.status, bare.body, bare.headers.get("www-authenticate")]).toEqual([
        401,
        "",
        'Bearer realm="oncebox"',
      ]);
      expect((await send("/v1/inbox/a", { method: "DELETE" })).headers.get("allow")).toBe(
        "GET, HEAD, OPTIONS",
      );
      expect((await send("/v1/inbox/a", { method: "OPTIONS" })).status).toBe(204);
      expect((await send("/v1/openapi.json", { method: "HEAD" })).body).toBe("");
      expect(logs()).toContain("inbox service");
      for (const secret of ["jane", leaseId, ...tokens, "wrong-token"])
        expect(logs(), secret).not.toContain(secret);
    });

    it("SVC-03 of 20 requests at once for each of 5 keys exactly one gets Acquired", async () => {
      const { post } = await started((await opened()).env);
      for (const key of ["a", "b", "c", "d", "e"]) {
        const answers = await Promise.all(Array.from({ length: 20 }, () => post("try-begin", { key })));
        expect(answers.filter(({ json }) => json.status === "Acquired")).toHaveLength(1);
        expect(answers.filter(({ json }) => json.status === "Busy")).toHaveLength(19);
      }
    });

    it("SVC-07 a database that is away: 503 with Retry-After, and 200 when it is back; a variable may refer to the tokens", async () => {
      const { env, line } = await opened();
      const { post } = await started({
        ...env,
        INBOX_SERVICE_TOKENS: JSON.stringify({ from: "env", name: "KEPT_TOKENS" }),
        KEPT_TOKENS: `${tokens[0]}, ${tokens[1]}`,
      });
      expect((await post("try-begin", { key: "a" })).json.status).toBe("Acquired");
      await line.cut();
      const away = await post("try-begin", { key: "b" });
      expect([away.status, away.headers.get("retry-after"), away.json.error.code]).toEqual([
        503,
        "1",
        "Unavailable",
      ]);
      await line.mend();
      await expect
        .poll(async () => (await post("try-begin", { key: "b" })).json.status, { timeout: 20_000 })
        .toBe("Acquired");
    });

    it("SVC-07 tokens that cannot be read: 503, and neither 401 nor an open service", async () => {
      const { env } = await opened();
      const { post, logs } = await started({ ...env, INBOX_SERVICE_TOKENS: "too-short" });
      expect((await post("try-begin", { key: "a" })).status).toBe(503);
      expect(logs()).not.toContain("too-short");
    });
  });
}
