import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, inject, it, onTestFinished } from "vitest";
import { faults, inProcessFaults } from "../../support/lossy/decide-fault.js";
import { postgresHarness } from "../../support/postgres-harness.js";
import { times } from "../../support/times.js";
import { account, inventoryDoes } from "./account.js";
import { type LossyPlan, type LossyResult, runLossy } from "./run.js";
import { correlationOf, messagesOfOrder } from "./services.js";
import type { OfBoth } from "./stages.js";
import type { Entry, Place } from "./tables.js";

const messages = times(100);
const isLong = messages > 1_000;
const count = messages / messagesOfOrder;
const shape = isLong
  ? { orders: count, kills: 40, longestMs: 1_800_000 }
  : { orders: count, kills: 5, longestMs: 120_000 };
/** Of each service. The seed decides which one is killed. */
const leastKills = isLong ? 10 : 2;
const timeoutMs = 3 * shape.longestMs;

describe(`${messages} messages between two services that lose a fifth of their calls and are killed at random`, () => {
  for (const transport of ["http", "unix", "grpc", "inprocess"] as const)
    it(
      `MSG-09 MSG-16 ${transport} on SQLite: each is handled exactly once, and so is each response`,
      async () => {
        await untilEachFault(transport, async (seed) => {
          const folder = await newFolder();
          const place = (name: string) => ({ file: join(folder, `${name}.db`) });
          const places = { orders: place("orders"), inventory: place("inventory") };
          return verified(transport, "SQLite", await run(transport, places, folder, seed));
        });
      },
      timeoutMs,
    );

  it.runIf(isLong)(
    "MSG-09 MSG-16 http on PostgreSQL: each is handled exactly once, and so is each response",
    async () => {
      const url = inject("postgresUrl");
      const place = async () => {
        const { schema, close } = await postgresHarness(url).open();
        onTestFinished(close);
        return { url, schema: schema! };
      };
      await untilEachFault("http", async (seed) => {
        const places = { orders: await place(), inventory: await place() };
        return verified("http", "PostgreSQL", await run("http", places, await newFolder(), seed));
      });
    },
    timeoutMs,
  );
});

const entry = (what: string, order: number): Entry => ({ what, order, correlation: correlationOf(order) });
const done = [1, 2].flatMap((order) => inventoryDoes.map((what) => entry(what(), order)));

it("the check of a lossy run finds what is missing, done twice, or not asked for", () => {
  const [first, ...others] = done;
  expect(account(done, 2, inventoryDoes)).toEqual({ missing: [], twice: [], unexpected: [] });
  expect(account(others, 2, inventoryDoes).missing).toEqual(["OrderApproved for 1 (order 1)"]);
  expect(account([...done, first!], 2, inventoryDoes).twice).toEqual([
    "OrderApproved for 1 (order 1): 2 times",
  ]);
  expect(account([...done, entry("ReserveStock", 3)], 2, inventoryDoes).unexpected).toEqual([
    "ReserveStock for 3 (order 3)",
  ]);
  const mixedUp = { ...first!, correlation: correlationOf(2) };
  expect(account([mixedUp, ...others], 2, inventoryDoes)).toMatchObject({
    missing: ["OrderApproved for 1 (order 1)"],
    unexpected: ["OrderApproved for 1 (order 2)"],
  });
});

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-lossy-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const run = (transport: LossyPlan["transport"], places: OfBoth<Place>, folder: string, seed: string) =>
  runLossy({ ...shape, transport, places, folder, seed, atEnd: onTestFinished });

/** Runs show something when each kind of fault has come, and each service was killed. On a busy machine one may bring too few calls for that: another follows. */
async function untilEachFault(
  transport: LossyPlan["transport"],
  runOnce: (seed: string) => Promise<LossyResult>,
): Promise<void> {
  const missing = new Set<string>(transport === "inprocess" ? inProcessFaults : faults);
  const killed = { orders: 0, inventory: 0 };
  for (let runs = 1; missing.size > 0 || Math.min(killed.orders, killed.inventory) < leastKills; runs++) {
    const { outcomes, kills } = await runOnce(runs === 1 ? "services" : `services ${runs}`);
    for (const [kind, n] of Object.entries(outcomes)) if (n > 0) missing.delete(kind);
    killed.orders += kills.orders;
    killed.inventory += kills.inventory;
  }
}

function verified(transport: LossyPlan["transport"], database: string, result: LossyResult): LossyResult {
  console.log(`${transport} on ${database}: ${summary(result)}`);
  const { accounts, states, dead } = result;
  const exactlyOnce = { missing: [], twice: [], unexpected: [] };
  expect(accounts).toEqual({ orders: exactlyOnce, inventory: exactlyOnce });
  const nothingElse = { Pending: 0, Sending: 0, Failed: 0, Expired: 0 };
  expect(states.orders).toEqual({ ...nothingElse, Sent: messages });
  expect(states.inventory).toEqual({ ...nothingElse, Sent: count });
  expect(dead).toBe(0);
  return result;
}

/** `entries` of the sender are its orders and the responses. */
function summary({ entries, duplicates, retries, outcomes, kills, seconds, states }: LossyResult): string {
  const { none, away, ...suffered } = outcomes;
  const lost = Object.values(suffered).reduce((sum, n) => sum + n, 0);
  const kinds = Object.entries(suffered).map(([kind, n]) => `${kind} ${n}`);
  return [
    `${states.orders.Sent} sent`,
    `${entries.inventory} processed`,
    `${entries.orders - count} responses handled`,
    `duplicates caught: ${duplicates.inventory} messages, ${duplicates.orders} responses`,
    `${lost} faults in ${lost + none + away} calls (${kinds.join(", ")})`,
    `${away} calls to a service that was away`,
    `${retries} retries`,
    `kills: orders ${kills.orders}, inventory ${kills.inventory}`,
    `${seconds.toFixed(1)} s`,
  ].join("; ");
}
