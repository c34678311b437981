import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { OutboxStats } from "../../../src/messaging/index.js";
import { seededFractions } from "../../support/seeded-random.js";
import { serviceProcesses } from "../../support/service-processes.js";
import { type Account, account, inventoryDoes, ordersDo } from "./account.js";
import { readNotes } from "./child-options.js";
import { createInventory, createOrders, messagesOfOrder } from "./services.js";
import { inProcessStage, type NetworkScheme, networkStage, type OfBoth, type Stage } from "./stages.js";
import { openTables, type Place } from "./tables.js";

export interface LossyPlan {
  readonly transport: NetworkScheme | "inprocess";
  readonly places: OfBoth<Place>;
  readonly orders: number;
  readonly seed: string;
  readonly kills: number;
  /** The run is given up after this time. */
  readonly longestMs: number;
  /** An empty folder. */
  readonly folder: string;
  readonly atEnd: (stop: () => Promise<void>) => void;
}

export interface LossyResult extends Pick<Stage, "kills" | "outcomes"> {
  readonly accounts: OfBoth<Account>;
  readonly entries: OfBoth<number>;
  readonly states: OfBoth<OutboxStats["counts"]>;
  /** Deliveries that were recognised as known. */
  readonly duplicates: OfBoth<number>;
  readonly retries: number;
  readonly dead: number;
  readonly seconds: number;
}

const betweenLooksMs = 20;
const betweenChecksMs = 200;
const maxPauseMs = 50;

/** Sends the messages of all orders under faults and kills, until everything is done or the time is up. */
export async function runLossy(plan: LossyPlan): Promise<LossyResult> {
  const { transport, places, orders: count, seed, folder, atEnd } = plan;
  const tables = { orders: openTables(places.orders), inventory: openTables(places.inventory) };
  atEnd(() => tables.orders.db.close());
  atEnd(() => tables.inventory.db.close());
  // never started: they create the tables and read the states
  const peer = { address: "inprocess://nobody" };
  const orders = createOrders({ tables: tables.orders, peer });
  const inventory = createInventory({ tables: tables.inventory, peer });
  await Promise.all([orders.init(), inventory.init()]);
  await Promise.all([tables.orders.create(), tables.inventory.create()]);
  const states = async () => ({
    orders: (await orders.outboxStats()).counts,
    inventory: (await inventory.outboxStats()).counts,
  });

  const notes = join(folder, "notes");
  writeFileSync(notes, "");
  const processes = serviceProcesses(atEnd);
  const stagePlan = { places, orders: count, seed, folder, notes, processes, atEnd };
  const startedAt = performance.now();
  const stage = await (transport === "inprocess"
    ? inProcessStage(stagePlan)
    : networkStage(transport, stagePlan));

  const finished = new AbortController();
  const { signal } = finished;
  const { kills } = plan;
  /** A kill at a random moment in each part of the work, so that none comes when all is done. */
  const waitFor = async (kill: number) => {
    const part = (kill + seededFractions(`${seed} when`, kill)[0]) / (kills + 1);
    const least = part * inventoryDoes.length * count;
    while (!signal.aborted && (await tables.inventory.count()) < least) await pause(betweenLooksMs);
  };
  const killing = processes.killAtRandom({ seed, kills, maxPauseMs, waitFor, signal });
  while (performance.now() - startedAt < plan.longestMs) {
    const { orders: sent, inventory: responses } = await states();
    const isAllSent = sent.Sent === messagesOfOrder * count && responses.Sent === count;
    if (isAllSent) break;
    await pause(betweenChecksMs);
  }
  const seconds = (performance.now() - startedAt) / 1_000;
  finished.abort();
  await killing;
  await stage.idle();
  await processes.stop();

  const noted = readNotes(notes);
  const entries = { orders: await tables.orders.entries(), inventory: await tables.inventory.entries() };
  return {
    kills: stage.kills,
    outcomes: stage.outcomes,
    accounts: {
      orders: account(entries.orders, count, ordersDo),
      inventory: account(entries.inventory, count, inventoryDoes),
    },
    entries: { orders: entries.orders.length, inventory: entries.inventory.length },
    states: await states(),
    duplicates: { orders: noted("duplicate", "orders"), inventory: noted("duplicate", "inventory") },
    retries: noted("retry", "orders") + noted("retry", "inventory"),
    dead: noted("dead", "orders") + noted("dead", "inventory"),
    seconds,
  };
}
