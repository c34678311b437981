import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import type { TenantStoreProvider } from "../../../src/tenants/connections/tenant-stores.js";
import { drainFirst, roundRobin, type SelectionStrategy } from "../../../src/tenants/scheduling/selection.js";
import { createTenantDispatcher } from "../../../src/tenants/scheduling/tenant-dispatcher.js";
import type { TestDatabase } from "../harness.js";
import { type TestTenants, testTenants } from "./support.js";

const batchSize = 2;
const ids = ["a", "b", "c"];

const queues = ["inbox", "outbox"] as const;

/** Gives each tenant so many batches of messages. */
async function fill(
  tenants: TenantStoreProvider,
  queue: (typeof queues)[number],
  batches: Readonly<Record<string, number>>,
): Promise<void> {
  for (const [id, count] of Object.entries(batches)) {
    const { inbox, outbox } = await tenants.stores(id);
    for (let number = 0; number < count * batchSize; number++) {
      const message = { topic: "t", payload: "" };
      if (queue === "inbox") await inbox.receive({ ...message, source: "test", messageId: randomUUID() });
      else await outbox.enqueue(message);
    }
  }
}

/** A dispatcher with the strategy, and the tenants of the handled batches in order. */
function dispatching(tenants: TenantStoreProvider, selection: SelectionStrategy) {
  const handled: string[] = [];
  let onMessage = (): void => {};
  const handlers = {
    t(_: unknown, { store }: { readonly store: string }) {
      handled.push(store);
      onMessage();
    },
  };
  const dispatcher = createTenantDispatcher({
    tenants,
    selection,
    dispatchers: {
      inbox: createDispatcher({ handlers, batchSize }),
      outbox: createDispatcher({ handlers, batchSize }),
    },
  });
  const batches = () => handled.filter((_, index) => index % batchSize === 0).join("");
  return {
    async run() {
      handled.length = 0;
      const report = await dispatcher.run(timeBudget(60_000));
      return { batches: batches(), report };
    },
    /** Ends the run after the first batches. */
    async runFor(count: number) {
      handled.length = 0;
      const end = new AbortController();
      onMessage = () => handled.length === count * batchSize && end.abort();
      await dispatcher.run(timeBudget(60_000, end.signal));
      onMessage = () => {};
      return batches();
    },
  };
}

/** The order in which the dispatcher of many tenants serves their databases. Each test drains all of them. */
export function strategyTests(database: () => TestDatabase): void {
  describe.each(queues)("selection strategies: %s", (queue) => {
    let made: TestTenants;
    let tenants: TenantStoreProvider;
    beforeAll(async () => {
      made = testTenants(database());
      const list = await Promise.all(ids.map((id) => made.tenant(id)));
      tenants = made.stores({ discover: () => list });
    });
    afterAll(() => made.close());

    it("IBX-086 IBX-087 OBX-067 OBX-068 round-robin dispatches one batch of each tenant in turn", async () => {
      await fill(tenants, queue, { a: 3, b: 1, c: 2 });
      const { batches, report } = await dispatching(tenants, roundRobin()).run();
      expect(batches).toBe("abcaca");
      expect(report[queue]).toMatchObject({ acked: 6 * batchSize, stopped: "drained" });
      expect(report).toMatchObject({ failed: [], left: [] });
    });

    it("IBX-087 OBX-068 round-robin continues in the next run with the tenant after the last", async () => {
      await fill(tenants, queue, { a: 2, b: 2, c: 2 });
      const dispatcher = dispatching(tenants, roundRobin());
      expect(await dispatcher.runFor(2)).toBe("ab");
      expect((await dispatcher.run()).batches).toBe("cabc");
    });

    it("IBX-088 OBX-069 drain-first dispatches all batches of a tenant before those of the next", async () => {
      await fill(tenants, queue, { a: 3, b: 1, c: 2 });
      const { batches, report } = await dispatching(tenants, drainFirst()).run();
      expect(batches).toBe("aaabcc");
      expect(report[queue]).toMatchObject({ acked: 6 * batchSize, stopped: "drained" });
    });

    it("IBX-088 OBX-069 drain-first continues in the next run with the tenant of the last", async () => {
      await fill(tenants, queue, { a: 1, b: 3, c: 1 });
      const dispatcher = dispatching(tenants, drainFirst());
      expect(await dispatcher.runFor(2)).toBe("ab");
      expect((await dispatcher.run()).batches).toBe("bbc");
    });
  });
}
