import { setTimeout as sleep } from "node:timers/promises";
import { answerParent } from "../peers/answer-parent.js";
import type { JobKind, OpenResident, ResidentName, ResidentSettings } from "./resident.js";

// One queue in a process of its own. A slow job is always running. For every number that it is sent, it adds so many
// quick jobs, one at a time at random, and sends back how long each waited from its commit to its handler.
const openers: Readonly<Record<ResidentName, () => Promise<OpenResident>>> = {
  oncebox: async () => (await import("./oncebox.js")).openOncebox,
  "graphile-worker": async () => (await import("./graphile-worker.js")).openGraphileWorker,
  "pg-boss": async () => (await import("./pg-boss.js")).openPgBoss,
};

const slowMs = 5_000;
const shortestGapMs = 0;
const longestGapMs = 80;

const [name, url, schema, wake, pollMs] = process.argv.slice(2) as [
  ResidentName,
  string,
  string,
  ResidentSettings["wake"],
  string,
];
const open = await openers[name]();

let ids = 0;
/** Called with the time at which a quick job's handler starts, by its id. */
const started = new Map<number, (at: number) => void>();

const handlers: Readonly<Record<JobKind, (id: number) => void | Promise<void>>> = {
  quick: (id) => started.get(id)!(performance.now()),
  // Its successor starts before it ends.
  async slow() {
    await sleep(slowMs / 2);
    await resident.add("slow", ++ids);
    await sleep(slowMs / 2);
  },
};

const resident = await open(url, schema, {
  wake,
  pollMs: Number(pollMs),
  concurrency: 10,
  handle: (kind, id) => handlers[kind](id),
});
await resident.add("slow", ++ids);

async function latencyMs(): Promise<number> {
  const id = ++ids;
  const handled = new Promise<number>((resolve) => started.set(id, resolve));
  await resident.add("quick", id);
  const committedAt = performance.now();
  const startedAt = await handled;
  started.delete(id);
  return startedAt - committedAt;
}

answerParent(
  async (count) => {
    const latencies: Promise<number>[] = [];
    while (latencies.length < count) {
      latencies.push(latencyMs());
      await sleep(shortestGapMs + Math.random() * (longestGapMs - shortestGapMs));
    }
    return Promise.all(latencies);
  },
  async () => process.exit(), // the slow job would be waited for
);
