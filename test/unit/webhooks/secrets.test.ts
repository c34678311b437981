import { describe, expect, it } from "vitest";
import type { Secrets } from "../../../src/webhooks/index.js";
import { testClock } from "../../contract/harness.js";
import { now, post, reception, signed } from "./support.js";

const body = '{"id":"evt_1","type":"ping"}';
const by = (secrets: string, timestamp = now) => signed("stripe", { secrets, body, timestamp });
const source = (secrets: Secrets) => ({ stripe: { scheme: "stripe", secrets } as const });

describe("secrets that are fetched", () => {
  it("FUN-02 are fetched with the first webhook, once for all webhooks that wait, and then kept", async () => {
    let fetched = 0;
    const { route } = await reception({
      sources: source(async () => {
        fetched++;
        await new Promise((resolve) => setImmediate(resolve));
        return ["new", "old"];
      }),
    });
    expect(fetched).toBe(0);
    const answers = await Promise.all(["new", "old", "new", "other"].map((secret) => route(by(secret))));
    expect(answers.map((answer) => answer.status)).toEqual([200, 200, 200, 401]);
    await route(by("new"));
    expect(fetched).toBe(1);
  });

  it("FUN-02 several functions may fetch secrets, and text may be among them", async () => {
    const { route } = await reception({
      sources: source(["plain", () => "fetched", async () => ["a", "b"]]),
    });
    for (const secret of ["plain", "fetched", "a", "b"]) expect((await route(by(secret))).status).toBe(200);
  });

  it("FUN-02 a failure is 503 without details and is not kept: the retry is accepted", async () => {
    let broken = true;
    const { route, messages, logs } = await reception({
      sources: source(async () => {
        if (broken) throw new Error("vault password hunter2 is wrong");
        return "s";
      }),
    });
    const answer = await route(by("s"));
    expect([answer.status, await answer.json()]).toEqual([503, { error: "unavailable" }]);
    expect(answer.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(JSON.stringify(logs)).not.toContain("hunter2");
    expect(await messages()).toEqual([]);
    broken = false;
    expect((await route(by("s"))).status).toBe(200);
    expect(await messages()).toHaveLength(1);
  });

  it("FUN-02 undefined, an empty text and an empty list fail closed: no request is accepted, not even with an empty secret", async () => {
    for (const nothing of ["", "  ", "\n", [], ["good", ""], undefined, null, 5, {}, [undefined]]) {
      const { route, messages, logs } = await reception({ sources: source((() => nothing) as never) });
      expect((await route(by("good"))).status, JSON.stringify(nothing)).toBe(503);
      const unsigned = post("stripe", { body, headers: { "stripe-signature": "t=1,v1=" } });
      expect((await route(unsigned)).status).toBe(503);
      expect(await messages()).toEqual([]);
      // The second request is refused for the same reason within the interval, so one line is enough.
      expect(logs.map(({ level, fields }) => [level, fields.reason])).toEqual([
        [
          "error",
          expect.stringMatching(/^A webhook secret that was fetched is (missing or empty\.|an object; )/),
        ],
      ]);
    }
  });

  it("FUN-02 are fetched again after a while, so that a rotation takes effect; when that fails the previous ones stay in use", async () => {
    const clock = testClock(now.getTime());
    let current: string | undefined = "first";
    const { route, logs } = await reception({
      clock,
      secretsMaxAgeMs: 60_000,
      sources: source(() => {
        if (current === undefined) throw new Error("away");
        return current;
      }),
    });
    const status = async (secret: string) => (await route(by(secret, clock()))).status;
    expect(await status("first")).toBe(200);
    current = "second";
    expect(await status("second")).toBe(401);
    clock.advance(60_000);
    expect([await status("second"), await status("first")]).toEqual([200, 401]);
    current = undefined;
    clock.advance(60_000);
    expect(await status("second")).toBe(200);
    expect(logs.filter((line) => line.level === "warn" && /refreshed/.test(line.message))).toMatchObject([
      { fields: { source: "stripe" } },
    ]);
    current = "third"; // not every webhook waits for a store that was away a moment ago
    expect([await status("third"), await status("second")]).toEqual([401, 200]);
    clock.advance(30_000);
    expect([await status("third"), await status("second")]).toEqual([200, 401]);
  });

  it("FUN-02 a store that never responds is 503 in time, and the next webhook fetches again", async () => {
    let hangs = true;
    const { route, logs } = await reception({
      receiveMs: 20,
      sources: source(() => (hangs ? new Promise<never>(() => {}) : "s")),
    });
    expect((await route(by("s"))).status).toBe(503);
    expect(logs.at(-1)?.fields.reason).toMatch(/^The time of a request, 20 ms .* fetching the secrets\.$/);
    hangs = false;
    await expect.poll(async () => (await route(by("s"))).status).toBe(200); // when the hung fetch has ended
  });

  it("FUN-02 a fetch that finishes after its webhook was refused serves the next one", async () => {
    let fetched = 0;
    let answer: (secret: string) => void = () => {};
    const { route } = await reception({
      receiveMs: 20,
      sources: source(() => {
        fetched++;
        return new Promise<string>((resolve) => {
          answer = resolve;
        });
      }),
    });
    expect((await route(by("s"))).status).toBe(503);
    answer("s");
    await expect.poll(async () => (await route(by("s"))).status).toBe(200); // on a busy machine 20 ms may be too short
    expect(fetched).toBe(1);
  });
});
