import { describe, expect, it } from "vitest";
import { openJobs } from "../../../src/app/jobs.js";
import type { WakeUp } from "../../../src/app/wake-up.js";
import { omitUndefined } from "../../../src/base/defined.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { type AppDefinition, defineApp, type Logger, timeBudget } from "../../../src/index.js";

const slow = () => new Promise<void>((resolve) => setTimeout(resolve, 100));

/** An app with twenty messages to handle. */
async function loadedApp(definition: AppDefinition, wakeUp: WakeUp, logger?: Logger) {
  const app = await openJobs(defineApp({ database: "sqlite::memory:", ...definition }), {
    environment: await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" }),
    wakeUp,
    ...omitUndefined({ logger }),
  });
  await app.migrate();
  const ids = Array.from({ length: 20 }, (_, index) => String(index));
  await app.inbox.enqueue(ids.map((messageId) => ({ source: "s", messageId, topic: "slow", payload: "" })));
  return app;
}

describe("the successor of a run whose time is up", () => {
  it("FUN-06 is not woken by a run that finished nothing, because it would finish nothing either", async () => {
    let woken = 0;
    const app = await loadedApp(
      { handlers: { slow }, dispatch: { expectedHandlerMs: 60_000 } },
      { wake: async () => void woken++ },
    );
    const report = await app.dispatch(timeBudget(1_000));
    expect(report).toMatchObject({ more: true, inbox: { acked: 0, abandoned: 0, failed: 0 } });
    expect(woken).toBe(0);
    await app.close();
  });

  it("FUN-06 is woken where messages only failed: their attempts come to an end", async () => {
    let woken = 0;
    const fails = async () => {
      await slow();
      throw new Error("no");
    };
    const app = await loadedApp(
      { handlers: { slow: fails }, dispatch: { concurrency: 1 } },
      { wake: async () => void woken++ },
    );
    expect(await app.dispatch(timeBudget(1_500))).toMatchObject({ more: true, inbox: { acked: 0 } });
    expect(woken).toBe(1);
    await app.close();
  });

  it("FUN-03 FUN-06 does not keep the function past its end, however long waking it takes", async () => {
    const warnings: unknown[] = [];
    const nothing = () => {};
    const logger: Logger = {
      debug: nothing,
      info: nothing,
      error: nothing,
      warn: (message, fields) => warnings.push([message, fields.error]),
    };
    let prepared = 0;
    const hangs: WakeUp = { wake: () => new Promise(() => {}), prepare: () => void prepared++ };
    const app = await loadedApp({ handlers: { slow }, dispatch: { concurrency: 1 } }, hangs, logger);
    expect(await app.dispatch(timeBudget(1_500))).toMatchObject({ more: true });
    expect(warnings).toEqual([["waking a successor failed", "late"]]);
    expect(prepared).toBe(1); // at half-time
    await app.close();
  });

  it("FUN-06 is not woken by a run that leaves nothing", async () => {
    let calls = 0;
    const count = () => void calls++;
    const app = await loadedApp({ handlers: { slow: () => {} } }, { wake: async () => count() });
    expect(await app.dispatch(timeBudget(30_000))).toMatchObject({ more: false, inbox: { acked: 20 } });
    expect(calls).toBe(0);
    await app.close();
  });
});
