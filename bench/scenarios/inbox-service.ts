import { type StartedServer, startServer } from "../inbox-service/start-server.js";
import { compare, inParallel, ratePerSecond } from "../measure.js";
import type { ResultRow } from "../report.js";
import type { Scenario, ScenarioInput } from "./scenario.js";

type Mix = "new keys" | "half leased";

/** Try-begin over HTTP, against an upsert by hand behind a server of node:http. */
export const inboxService: Scenario = async (input) => {
  const rows: ResultRow[] = [];
  for (const concurrency of [64, 4]) {
    for (const mix of ["new keys", "half leased"] as const) rows.push(await measure(input, concurrency, mix));
  }
  return rows;
};

async function measure(input: ScenarioInput, concurrency: number, mix: Mix): Promise<ResultRow> {
  const { database, databaseName, sizes } = input;
  const count = sizes.messagesPerRound[databaseName];
  const oncebox = await startServer(database, "oncebox");
  const bare = await startServer(database, "bare");
  const beginning = (server: StartedServer) => (round: number) =>
    ratePerSecond(count, () =>
      inParallel(count, concurrency, async (index) => {
        const { key, expected } = callOf(mix, round, index);
        const status = await server.tryBegin(key);
        if (status !== expected)
          throw new Error(`inbox-service: ${key} was ${status}, and should be ${expected}.`);
      }),
    );
  try {
    const result = await compare(beginning(oncebox), beginning(bare), sizes);
    return {
      ...result,
      name: `try-begin over HTTP ×${concurrency}, ${mix}`,
      database: database.title,
      unit: "calls/s",
      ratioTo: "bare upsert behind node:http",
      ...(databaseName === "postgres" && concurrency === 64 ? { target: { atLeast: 0.6 } } : {}),
    };
  } finally {
    await oncebox.close();
    await bare.close();
  }
}

/** Every second key of a round is one of the round before, and still leased. */
function callOf(mix: Mix, round: number, index: number): { readonly key: string; readonly expected: string } {
  const again = mix === "half leased" && index % 2 === 1 && round > 0;
  return again
    ? { key: `orders:billing:OrderPlaced:${round - 1}-${index - 1}`, expected: "Busy" }
    : { key: `orders:billing:OrderPlaced:${round}-${index}`, expected: "Acquired" };
}
