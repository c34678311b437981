import { setTimeout as sleep } from "node:timers/promises";
import { startFleet } from "../killed-worker/start-fleet.js";
import { median, spread } from "../measure.js";
import type { KilledWhile } from "../options.js";
import type { ResultRow } from "../report.js";
import type { Scenario, ScenarioInput } from "./scenario.js";

const workers = 4;
const concurrency = 10;
/** Short, so that what the killed worker held comes back while it is measured: after this and a back-off of 2 s. */
const leaseMs = 5_000;
const warmUpMs = 3_000;
const beforeMs = 6_000;
const afterMs = leaseMs + 11_000;

/** Messages per second, window by window. */
interface Throughput {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/** The throughput of four workers with a full backlog before and after one of them is killed; it is not replaced. */
export const killedWorker: Scenario = async (input) => {
  const rows: ResultRow[] = [];
  for (const load of input.sizes.killedWhile) {
    const kills: Throughput[] = [];
    for (let kill = 0; kill < input.sizes.kills; kill++) kills.push(await killOne(input, load));
    rows.push({ ...rowOf(kills), name: `one of four killed, ${load.title}`, database: input.database.title });
  }
  return rows;
};

async function killOne({ database }: ScenarioInput, load: KilledWhile): Promise<Throughput> {
  const handlerMs = (load.shortestMs + load.longestMs) / 2;
  // as many as they could handle if they did nothing else, and half as many again
  const pending = Math.ceil(((warmUpMs + beforeMs + afterMs) * 1.5 * workers * concurrency) / handlerMs);
  const opened = await database.openInbox(1, { pending, done: 0 });
  const fleet = await startFleet(opened, { workers, leaseMs, ...load });
  try {
    await sleep(warmUpMs);
    const before = await rates(fleet.acked, load.windowMs, beforeMs);
    fleet.killOne();
    const after = await rates(fleet.acked, load.windowMs, afterMs);
    const { counts } = await opened.inbox.stats();
    if (counts.Seen + counts.Processing === 0) throw new Error("killed-worker: the backlog was too short.");
    console.error(`  ${load.title}, messages/s: ${shown(before)} | killed | ${shown(after)}`);
    return { before, after };
  } finally {
    await fleet.stop();
    await opened.close();
  }
}

const shown = (values: readonly number[]): string => values.map((rate) => rate.toFixed(0)).join(" ");

async function rates(acked: () => number, windowMs: number, totalMs: number): Promise<readonly number[]> {
  const measured: number[] = [];
  let count = acked();
  let at = performance.now();
  const end = at + totalMs;
  while (at + windowMs <= end + windowMs / 2) {
    await sleep(windowMs);
    const now = performance.now();
    measured.push(((acked() - count) / (now - at)) * 1000);
    count = acked();
    at = now;
  }
  return measured;
}

/** The lowest window of all kills: "never below". */
function rowOf(kills: readonly Throughput[]): Omit<ResultRow, "name" | "database"> {
  const lowest = kills
    .map(({ before, after }) => {
      const usual = median(before);
      return { usual, least: Math.min(...after), rest: median(after) / usual };
    })
    .map((kill) => ({ ...kill, ratio: kill.least / kill.usual }))
    .sort((a, b) => a.ratio - b.ratio);
  const { usual, least, ratio, rest } = lowest[0]!;
  return {
    unit: "messages/s",
    rate: least,
    referenceRate: usual,
    ratio,
    ratioTo: `before; the lowest window after the kill (the median one: ${rest.toFixed(2)})`,
    spread: spread(lowest.map((kill) => kill.ratio)),
    target: { atLeast: 0.6 },
  };
}
