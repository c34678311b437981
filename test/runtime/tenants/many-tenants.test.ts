import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTenantStores, fair, type Tenant, type TenantStores } from "../../../src/app/tenants.js";
import type { LogFields, Logger } from "../../../src/base/logger.js";
import { createDispatcher, type InboxMessage, timeBudget } from "../../../src/index.js";
import type { SqlExecutor } from "../../../src/sql/driver.js";
import { createTenantDispatcher } from "../../../src/tenants/scheduling/tenant-dispatcher.js";
import {
  deadUrl,
  type PostgresTenants,
  postgresTenants,
  silentServer,
  sqliteTenants,
} from "../../support/many-tenants.js";
import { isLonger } from "../../support/times.js";

/** `ONCEBOX_TEST_TIMES=2` handles all of the whale's messages; otherwise the run ends when the others are done. */
const drainAll = isLonger;
const sizes = { sqlite: 200, postgres: 50, whale: 100_000, dead: 5, hanging: 2 } as const;
const limits = { perInstance: 24, perServer: 12, perDatabase: 1 } as const;
const concurrency = 8;
const pollTimeoutMs = 3_000;

let files: Awaited<ReturnType<typeof sqliteTenants>>;
let server: PostgresTenants;
let silent: Awaited<ReturnType<typeof silentServer>>;
let deadServer: string;

beforeAll(async () => {
  files = await sqliteTenants(sizes.sqlite);
  server = await postgresTenants(sizes.postgres, limits.perServer);
  silent = await silentServer();
  deadServer = await deadUrl();
});
afterAll(async () => {
  await silent.stop();
  await server.remove();
  await files.remove();
});

const message = (messageId: string) => ({ source: "test", messageId, topic: "t", payload: "{}" });

async function fill({ id, inbox }: TenantStores, count: number): Promise<void> {
  for (let first = 0; first < count; first += 1_000) {
    const length = Math.min(1_000, count - first);
    await inbox.enqueue(Array.from({ length }, (_, index) => message(`${id}-${first + index}`)));
  }
}

function recorder() {
  const lines: (LogFields & { readonly message: string })[] = [];
  const write = (text: string, fields: LogFields) => void lines.push({ ...fields, message: text });
  const logger: Logger = { debug: () => {}, info: () => {}, warn: write, error: write };
  return { lines, logger };
}

describe("many tenants", () => {
  it("IBX-085 IBX-090 OBX-066 FUN-07 FUN-08 ADD-08 two hundred files and fifty databases, one of them with 100,000 messages, seven broken", async () => {
    const late: Tenant[] = [files.tenants[0]!, server.tenants[1]!]; // added while it runs
    const gone = [files.tenants[2]!, server.tenants[3]!]; // removed while it runs
    const broken: Tenant[] = [
      ...Array.from({ length: sizes.dead }, (_, index) => ({
        id: `dead${index}`,
        database: `${deadServer}${index}`,
      })),
      ...Array.from({ length: sizes.hanging }, (_, index) => ({
        id: `hangs${index}`,
        database: `${silent.url}${index}`,
      })),
    ];
    let list: readonly Tenant[] = [...files.tenants, ...server.tenants];
    const { lines, logger } = recorder();
    const tenants = createTenantStores({ discover: () => list, connections: limits, logger });

    const whale = server.tenants[0]!.id;
    const loads = new Map<string, number>();
    const filling = list.entries();
    const filler = async (): Promise<void> => {
      for (const [index, { id }] of filling) {
        const load = id === whale ? sizes.whale : index % 10 === 1 ? 0 : 1 + (index % 7) ** 2; // 1 to 37, a tenth idle
        loads.set(id, load);
        if (load > 0) await fill(await tenants.stores(id), load);
      }
    };
    await Promise.all([filler(), filler(), filler(), filler()]);
    list = [...list.filter((tenant) => !late.includes(tenant)), ...broken];
    await tenants.refresh();

    // Counted: messages, and the whale's turn at which each other tenant's messages were handled.
    const handled = new Map<string, number>();
    const handledOf = new Map<string, number>();
    const whaleClaims = { now: 0 };
    const arrivedAt = new Map<string, number>();
    const longestWait = { turns: 0, id: "" };
    const hasMore = ([id, load]: readonly [string, number]) => load > (handledOf.get(id) ?? 0);
    const isGone = (id: string) => gone.some((tenant) => tenant.id === id);
    const othersLeft = () =>
      [...loads]
        .filter((entry) => entry[0] !== whale && !isGone(entry[0]) && hasMore(entry))
        .map(([id]) => id);
    /** Tenants that were added after the list was made belong to the next run. */
    const firstRunLeft = () => othersLeft().filter((id) => !late.some((tenant) => tenant.id === id));
    const stop = new AbortController();

    const arrive = async (id: string, name: string): Promise<void> => {
      await (await tenants.inbox(id)).receive(message(name));
      loads.set(id, (loads.get(id) ?? 0) + 1);
      arrivedAt.set(name, whaleClaims.now);
    };
    /** During the run tenants are added and removed, and idle tenants get a message. */
    const idle = files.tenants.map(({ id }) => id).filter((id) => loads.get(id) === 0);
    const events: Record<number, () => Promise<void>> = {
      3: () => arrive(idle[0]!, "late-0"),
      5: async () => {
        list = [...list, ...late];
        await tenants.refresh();
      },
      8: async () => {
        list = list.filter((tenant) => !gone.includes(tenant));
        await tenants.refresh();
      },
      12: () => arrive(idle[1]!, "late-1"),
      40: () => arrive(idle[2]!, "late-2"),
    };
    const running: Promise<void>[] = [];

    const dispatchers = (stores: TenantStores) => ({
      outbox: undefined,
      inbox: createDispatcher<InboxMessage, SqlExecutor>({
        batchSize: 50,
        logger,
        handlers: {
          t: ({ messageId }) => {
            handled.set(messageId, (handled.get(messageId) ?? 0) + 1);
            handledOf.set(stores.id, (handledOf.get(stores.id) ?? 0) + 1);
            if (stores.id === whale) {
              if (handledOf.get(whale)! % 50 === 1) {
                whaleClaims.now++;
                const event = events[whaleClaims.now];
                if (event !== undefined) running.push(event());
              }
            } else {
              const waited = whaleClaims.now - (arrivedAt.get(messageId) ?? 0);
              if (arrivedAt.has(messageId) && waited > longestWait.turns) {
                longestWait.turns = waited;
                longestWait.id = messageId;
              }
            }
            if (!drainAll && whaleClaims.now > 120 && arrivedAt.size === 3 && firstRunLeft().length === 0)
              stop.abort();
          },
        },
      }),
    });
    // On a clock on which each of the whale's turns takes 50 ms: the longest idle delay, 5 s, is a hundred of them.
    const selection = fair(Math.random, () => whaleClaims.now * 50);
    const longestIdleDelay = 100;
    const dispatcher = createTenantDispatcher({
      tenants,
      dispatchers,
      selection,
      concurrency,
      pollTimeoutMs,
      logger,
    });

    // The server's own count, all the time.
    let most = 0;
    let watching = true;
    const watch = (async () => {
      while (watching) most = Math.max(most, await server.connections());
    })();

    // As a timer would.
    const first = await dispatcher.run(timeBudget(600_000, stop.signal));
    await Promise.all(running);
    const runs = [first];
    const afterwards = timeBudget(30_000);
    const stillServed = async () => (await tenants.distinctStores()).filter((id) => id !== whale || drainAll);
    while (
      othersLeft().some((id) => !gone.some((tenant) => tenant.id === id)) &&
      afterwards.remainingMs() > 0
    )
      runs.push(await dispatcher.run(timeBudget(10_000), await stillServed()));
    watching = false;
    await watch;

    // Every message was handled once, and none is left of the tenants that were not removed.
    expect(Math.max(...handled.values())).toBe(1);
    expect(othersLeft()).toEqual([]);
    // The running work of a removed tenant was finished: its other messages are in its database, without leases.
    list = [...list, ...gone];
    await tenants.refresh();
    for (const [id, load] of loads) {
      const { counts } = await (await tenants.inbox(id)).stats();
      expect({ id, done: counts.Done, open: counts.Seen + counts.Processing + counts.Dead }).toEqual({
        id,
        done: handledOf.get(id) ?? 0,
        open: load - (handledOf.get(id) ?? 0),
      });
    }

    // Fairness, in turns of the tenant with 100,000 messages: after its idle delay every other tenant is polled within this number.
    const idleAtMost = list.length;
    expect(longestWait.turns).toBeLessThanOrEqual(longestIdleDelay + Math.ceil(idleAtMost / 8) + concurrency);
    if (!drainAll) expect(handledOf.get(whale)!).toBeLessThan(sizes.whale);

    // The broken tenants were logged by name, each once in a run, and cost the others nothing.
    const failed = lines.filter((line) => line.message === "a tenant failed and is quarantined");
    expect([...new Set(failed.map((line) => line.store))].sort()).toEqual(broken.map(({ id }) => id).sort());
    expect([...first.failed].sort()).toEqual(broken.map(({ id }) => id).sort());
    expect(silent.accepted()).toBeGreaterThanOrEqual(sizes.hanging);
    // Nothing else went wrong: above all the server refused no connection, which it does above the user's limit.
    expect(lines.filter((line) => line.message !== "a tenant failed and is quarantined")).toEqual([]);
    expect(most).toBeGreaterThan(limits.perServer / 2); // it was near enough to be measured
    expect(most).toBeLessThanOrEqual(limits.perServer);
    expect(tenants.connections.taken()).toBeLessThanOrEqual(limits.perInstance);
    console.log(
      `many tenants: ${handled.size} messages, ${runs.reduce((sum, run) => sum + run.turns, 0)} turns, ${whaleClaims.now} of the largest; longest wait ${longestWait.turns} of its turns; at most ${most} of ${limits.perServer} connections`,
    );
    await tenants.close();
    expect(tenants.connections.taken()).toBe(0);
  }, 600_000);
});
