import { tmpdir } from "node:os";
import { join } from "node:path";
import { compare, median } from "../measure.js";
import { type Pair, startPair } from "../messaging/start-pair.js";
import { concurrency } from "../messaging/two-processes.js";
import type { ResultRow } from "../report.js";
import type { Scenario, ScenarioInput } from "./scenario.js";

const loopback = "http://127.0.0.1:0";
const socket =
  process.platform === "win32"
    ? `pipe://./pipe/oncebox-bench-${process.pid}`
    : `unix://${join(tmpdir(), `oncebox-bench-${process.pid}.sock`)}`;

const ratioTo = "bare fetch and one insert on each side";

/** Messages from one process to another, against a call of `fetch` with one insert before it and one behind it. */
export const messaging: Scenario = async (input) => [
  await throughput(input, "HTTP", loopback),
  await throughput(input, "a Unix socket", socket),
  await latency(input),
];

/** From the first `send` until the last message is settled in the outbox. */
async function throughput(input: ScenarioInput, over: string, listenAt: string): Promise<ResultRow> {
  const { database, databaseName, sizes } = input;
  const count = sizes.messagesPerRound[databaseName];
  const rateOf = (pair: Pair) => async () => {
    const { rate } = await pair.send(count);
    return rate;
  };
  const result = await withPairs(input, listenAt, concurrency, (oncebox, bare) =>
    compare(rateOf(oncebox), rateOf(bare), sizes),
  );
  return {
    ...result,
    name: `messages over ${over} ×${concurrency}`,
    database: database.title,
    unit: "messages/s",
    ratioTo,
    ...(listenAt === loopback ? { target: { atLeast: 0.5 } } : {}),
  };
}

/** From the commit of `send` to the start of the handler; of the bare side, the whole call with both commits. */
async function latency(input: ScenarioInput): Promise<ResultRow> {
  const { database, sizes } = input;
  const result = await withPairs(input, loopback, 1, (oncebox, bare) =>
    compare(
      async () => {
        const { committedAt, startedAt } = await oncebox.send(sizes.singleMessages);
        return median(committedAt.map((at, index) => startedAt[index]! - at));
      },
      async () => median((await bare.send(sizes.singleMessages)).tookMs),
      sizes,
    ),
  );
  return {
    ...result,
    name: "from a commit to the handler: median",
    database: database.title,
    unit: "ms",
    ratioTo,
    target: { atMost: 2 },
  };
}

async function withPairs<T>(
  { database }: ScenarioInput,
  listenAt: string,
  atOnce: number,
  work: (oncebox: Pair, bare: Pair) => Promise<T>,
): Promise<T> {
  const oncebox = await startPair(database, "oncebox", listenAt, atOnce);
  const bare = await startPair(database, "bare", loopback, atOnce);
  try {
    return await work(oncebox, bare);
  } finally {
    await oncebox.close();
    await bare.close();
  }
}
