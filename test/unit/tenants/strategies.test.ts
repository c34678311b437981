import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createDispatcher, migrate, timeBudget } from "../../../src/index.js";
import {
  createTenantDispatcher,
  createTenantStores,
  drainFirst,
  roundRobin,
  type SelectionStrategy,
  type TenantStoreProvider,
} from "../../../src/tenants/index.js";

const batchSize = 2;
const ids = ["a", "b", "c"];

let folder: string;
let tenants: TenantStoreProvider;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-strategies-"));
  const list = ids.map((id) => ({ id, database: `sqlite:${join(folder, `${id}.db`)}` }));
  tenants = createTenantStores({ discover: () => list });
  for (const id of ids) await migrate((await tenants.stores(id)).db);
});
afterEach(async () => {
  await tenants.close();
  await rm(folder, { recursive: true, force: true });
});

const queues = ["inbox", "outbox"] as const;

/** Gives each tenant so many batches of messages. */
async function fill(
  queue: (typeof queues)[number],
  batches: Readonly<Record<string, number>>,
): Promise<void> {
  for (const [id, count] of Object.entries(batches)) {
    const { inbox, outbox } = await tenants.stores(id);
    for (let number = 0; number < count * batchSize; number++) {
      const message = { topic: "t", payload: "" };
      if (queue === "inbox") await inbox.receive({ ...message, source: "test", messageId: String(number) });
      else await outbox.enqueue(message);
    }
  }
}

/** A dispatcher with the strategy, and the tenants of the handled batches in order. */
function dispatching(selection: SelectionStrategy) {
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

describe.each(queues)("selection strategies on databases: %s", (queue) => {
  it("IBX-086 IBX-087 OBX-067 OBX-068 round-robin dispatches one batch of each tenant in order, again and again", async () => {
    await fill(queue, { a: 3, b: 1, c: 2 });
    const { batches, report } = await dispatching(roundRobin()).run();
    expect(batches).toBe("abcaca");
    expect(report[queue]).toMatchObject({ acked: 6 * batchSize, stopped: "drained" });
    expect(report).toMatchObject({ failed: [], left: [] });
  });

  it("IBX-087 OBX-068 round-robin continues in the next run with the tenant after the last", async () => {
    await fill(queue, { a: 2, b: 2, c: 2 });
    const dispatcher = dispatching(roundRobin());
    expect(await dispatcher.runFor(2)).toBe("ab");
    expect((await dispatcher.run()).batches).toBe("cabc");
  });

  it("IBX-088 OBX-069 drain-first dispatches all batches of a tenant before those of the next", async () => {
    await fill(queue, { a: 3, b: 1, c: 2 });
    const { batches, report } = await dispatching(drainFirst()).run();
    expect(batches).toBe("aaabcc");
    expect(report[queue]).toMatchObject({ acked: 6 * batchSize, stopped: "drained" });
  });

  it("IBX-088 OBX-069 drain-first continues in the next run with the tenant of the last", async () => {
    await fill(queue, { a: 1, b: 3, c: 1 });
    const dispatcher = dispatching(drainFirst());
    expect(await dispatcher.runFor(2)).toBe("ab");
    expect((await dispatcher.run()).batches).toBe("bbc");
  });
});
