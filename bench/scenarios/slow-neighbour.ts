import type { BenchDatabase } from "../databases/bench-database.js";
import { quantile, spread } from "../measure.js";
import type { Sizes } from "../options.js";
import { notMeasured, type ResultRow } from "../report.js";
import type { ResidentName, ResidentSettings } from "../residents/resident.js";
import type { StartedResident } from "../residents/start-resident.js";
import type { Scenario } from "./scenario.js";

const names = ["oncebox", "graphile-worker", "pg-boss"] as const satisfies readonly ResidentName[];
const peers = ["graphile-worker", "pg-boss"] as const;
const quantiles = { median: 0.5, p99: 0.99 } as const;
const titles = { notify: "woken by NOTIFY", poll: "polling" } as const;
const pollMs = 500;

/** By queue, then by round: how long each quick message waited. */
type Latencies = Readonly<Record<ResidentName, (readonly number[])[]>>;

/** How long quick messages wait for their handler while slow ones always run in the same worker; against other queues. */
export const slowNeighbour: Scenario = async ({ database, sizes }) => {
  const { startResident } = database;
  if (startResident === undefined) return [];
  const rows: ResultRow[] = [];
  for (const wake of ["notify", "poll"] as const) {
    const latencies = await measured(startResident, wake, sizes).catch((error: Error) => error);
    for (const quantileName of ["median", "p99"] as const)
      rows.push({
        unit: "ms",
        ...(latencies instanceof Error
          ? { ...notMeasured, ratioTo: `not measured: ${latencies.message}` }
          : ratioOf(latencies, quantiles[quantileName])),
        target: { atMost: 1.5 },
        name: `quick beside slow, ${titles[wake]}: ${quantileName}`,
        database: database.title,
      });
  }
  return rows;
};

/** All are there at once, and each is measured in turn while the others wait: A B C, C B A, … */
async function measured(
  startResident: NonNullable<BenchDatabase["startResident"]>,
  wake: ResidentSettings["wake"],
  { neighbourRounds, quickMessages }: Sizes,
): Promise<Latencies> {
  const latencies: Latencies = { oncebox: [], "graphile-worker": [], "pg-boss": [] };
  const residents = new Map<ResidentName, StartedResident>();
  try {
    for (const name of names) residents.set(name, await startResident(name, { wake, pollMs }));
    for (let round = 0; round <= neighbourRounds; round++)
      for (const name of round % 2 === 0 ? names : [...names].reverse()) {
        const ofRound = await residents.get(name)!.latenciesMs(quickMessages);
        if (round > 0) latencies[name].push(ofRound); // the first warms up
      }
  } finally {
    for (const resident of residents.values()) await resident.close();
  }
  return latencies;
}

/** Against the better peer. The quantile is that of all rounds; the spread is that of the rounds' own ratios. */
function ratioOf(
  latencies: Latencies,
  q: number,
): Pick<ResultRow, "rate" | "referenceRate" | "ratio" | "ratioTo" | "spread"> {
  const ofAll = (name: ResidentName): number => quantile(latencies[name].flat(), q);
  const [better, worse] = [...peers].sort((a, b) => ofAll(a) - ofAll(b)) as [ResidentName, ResidentName];
  const ratios = latencies.oncebox.map(
    (ofRound, round) => quantile(ofRound, q) / quantile(latencies[better][round]!, q),
  );
  return {
    rate: ofAll("oncebox"),
    referenceRate: ofAll(better),
    ratio: ofAll("oncebox") / ofAll(better),
    ratioTo: `${better}; ${worse} takes ${ofAll(worse).toFixed(1)} ms`,
    spread: spread(ratios),
  };
}
