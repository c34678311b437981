import { describe, expect, it } from "vitest";
import type { MetricAttributes } from "../../../src/base/telemetry.js";
import { permanentFailure, RetryAfter } from "../../../src/index.js";
import { circuitBreaker, RefusedMessage } from "../../../src/publishers/circuit-breaker.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";

const failing = async () => {
  throw new Error("away");
};
const working = async () => "ok";

function made(overrides = {}) {
  let nowMs = 0;
  const breaker = circuitBreaker(
    "The shop",
    { failures: 3, openMs: 1_000, maxOpenMs: 3_000, ...overrides },
    { now: () => nowMs },
  );
  return {
    breaker,
    advance: (ms: number) => {
      nowMs += ms;
    },
    fail: async (times: number) => {
      for (let i = 0; i < times; i++) await breaker.run(failing).catch(() => {});
    },
  };
}

describe("circuit breaker", () => {
  it("ADD-10 opens after failures in a row, and then refuses without a call", async () => {
    const { breaker, fail } = made();
    await fail(2);
    await breaker.run(working); // a success resets the count
    await fail(2);
    expect(breaker.state).toBe("closed");
    await fail(1);
    expect(breaker.state).toBe("open");
    let called = false;
    const refused = await breaker
      .run(async () => {
        called = true;
      })
      .catch((error: unknown) => error);
    expect(called).toBe(false);
    expect(refused).toBeInstanceOf(RetryAfter);
    expect(refused).toMatchObject({ delayMs: 1_000, costsAttempt: false });
  });

  it("ADD-10 after openMs one trial call is let through, and the others are put off until it has ended", async () => {
    const { breaker, advance, fail } = made();
    await fail(3);
    advance(1_000);
    expect(breaker.state).toBe("trial");
    let finish = (_: string): void => {};
    const trial = breaker.run(
      () =>
        new Promise<string>((resolve) => {
          finish = resolve;
        }),
    );
    await expect(breaker.run(working)).rejects.toBeInstanceOf(RetryAfter);
    finish("ok");
    expect(await trial).toBe("ok");
    expect(breaker.state).toBe("closed");
    expect(await breaker.run(working)).toBe("ok");
  });

  it("ADD-10 a failed trial opens it for twice as long, up to maxOpenMs", async () => {
    const { breaker, advance, fail } = made();
    await fail(3);
    const waits: number[] = [];
    let waited = 1_000;
    for (let i = 0; i < 4; i++) {
      advance(waited);
      await fail(1);
      const refused = (await breaker.run(working).catch((error: unknown) => error)) as RetryAfter;
      waits.push(refused.delayMs);
      waited = refused.delayMs;
    }
    expect(waits).toEqual([2_000, 3_000, 3_000, 3_000]);
  });

  it("ADD-10 a permanent failure of a message does not count against the destination", async () => {
    const { breaker } = made();
    for (let i = 0; i < 10; i++)
      await breaker.run(async () => Promise.reject(permanentFailure("too large"))).catch(() => {});
    expect(breaker.state).toBe("closed");
  });

  it("ADD-10 aborted calls do not count against the destination, and another trial may follow", async () => {
    const { breaker, advance, fail } = made();
    const ended = AbortSignal.abort();
    for (let i = 0; i < 10; i++) await breaker.run(failing, ended).catch(() => {});
    expect(breaker.state).toBe("closed");
    await fail(3);
    advance(1_000);
    await breaker.run(failing, ended).catch(() => {});
    expect(breaker.state).toBe("trial");
    expect(await breaker.run(working)).toBe("ok");
    expect(breaker.state).toBe("closed");
  });

  it("ADD-10 calls that were running when it opened count once", async () => {
    const { breaker, advance } = made();
    await Promise.all(Array.from({ length: 20 }, () => breaker.run(failing).catch(() => {})));
    expect(breaker.state).toBe("open");
    advance(1_000);
    expect(breaker.state).toBe("trial");
  });

  it("ADD-10 opens after 5 failures, for 10 s, and for 5 min at most, by default", async () => {
    let nowMs = 0;
    const breaker = circuitBreaker("The shop", {}, { now: () => nowMs });
    for (let i = 0; i < 4; i++) await breaker.run(failing).catch(() => {});
    expect(breaker.state).toBe("closed");
    await breaker.run(failing).catch(() => {});
    const delays: number[] = [];
    for (let i = 0; i < 7; i++) {
      const refused = (await breaker.run(working).catch((error: unknown) => error)) as RetryAfter;
      delays.push(refused.delayMs);
      nowMs += refused.delayMs;
      await breaker.run(failing).catch(() => {});
    }
    expect(delays).toEqual([10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
  });

  it("ADD-10 settings are checked", () => {
    expect(() => circuitBreaker("x", { failures: 0 })).toThrow(/failures/);
    expect(() => circuitBreaker("x", { openMs: -1 })).toThrow(/openMs/);
    expect(() => circuitBreaker("x", { open: 1 } as never)).toThrow(/unknown option open/);
  });

  it("ADD-10 a trial that hangs has failed at its deadline, and another trial follows", async () => {
    const { breaker, advance, fail } = made({ trialMs: 20 });
    await fail(3);
    advance(1_000);
    const hung = breaker.run(() => new Promise<never>(() => {}));
    await expect(hung).rejects.toThrow("The shop did not end the trial within 20 ms.");
    expect(breaker.state).toBe("open");
    advance(2_000);
    expect(breaker.state).toBe("trial");
    expect(await breaker.run(working)).toBe("ok");
    expect(breaker.state).toBe("closed");
  });

  it("ADD-10 a message that the destination refuses does not count against it, and a trial with it closes the breaker", async () => {
    const { breaker, advance, fail } = made();
    const refusing = () => Promise.reject(new RefusedMessage("too large"));
    for (let i = 0; i < 10; i++) await breaker.run(refusing).catch(() => {});
    expect(breaker.state).toBe("closed");
    await fail(3);
    advance(1_000);
    await breaker.run(refusing).catch(() => {});
    expect(breaker.state).toBe("closed");
  });

  it("ADD-10 opening and closing are logged and counted, and so is every refused call", async () => {
    const lines: LogLine[] = [];
    const logger = recordingLogger(lines);
    const counted: string[] = [];
    const metrics = {
      count: (name: string, value: number, { destination, event }: MetricAttributes) =>
        void counted.push(`${name} ${value} ${destination} ${event}`),
      duration: () => {},
    };
    let nowMs = 0;
    const breaker = circuitBreaker(
      "The shop",
      { failures: 2, openMs: 1_000 },
      { logger, metrics, now: () => nowMs },
    );
    for (let i = 0; i < 3; i++) await breaker.run(failing).catch(() => {});
    nowMs = 1_000;
    await breaker.run(failing).catch(() => {});
    nowMs = 3_000;
    await breaker.run(working);
    await breaker.run(working);
    expect(lines.map(({ level, message, fields }) => [level, message, fields])).toEqual([
      [
        "error",
        "circuit breaker opened",
        { destination: "The shop", failures: 2, openMs: 1_000, reason: "Error" },
      ],
      [
        "error",
        "circuit breaker opened",
        { destination: "The shop", failures: 3, openMs: 2_000, reason: "Error" },
      ],
      ["info", "circuit breaker closed", { destination: "The shop" }],
    ]);
    expect(counted).toEqual(
      ["opened", "refused", "opened", "closed"].map((event) => `oncebox.breaker 1 The shop ${event}`),
    );
  });
});
