import { parseArgs } from "node:util";

export const scenarioNames = [
  "receive",
  "batch-ingest",
  "drain",
  "dispatch",
  "partitions",
  "deadline",
  "backlog",
  "round-trips",
  "idle-poll",
  "tenants",
  "cold-start",
  "slow-neighbour",
  "killed-worker",
  "messaging",
  "inbox-service",
  "telemetry",
  "dead-letters",
] as const;
export type ScenarioName = (typeof scenarioNames)[number];

export const databaseNames = ["sqlite", "postgres", "sqlserver"] as const;
export type DatabaseName = (typeof databaseNames)[number];

/** How much of everything: enough rounds for a steady median, or few enough for a minute. */
export interface Sizes {
  readonly rounds: number;
  /** For one comparison. */
  readonly maxMs: number;
  /** Messages received in one round. SQLite does not wait for a disk or a socket, so it gets more. */
  readonly receivesPerRound: Readonly<Record<DatabaseName, number>>;
  readonly batchesPerRound: Readonly<Record<DatabaseName, number>>;
  readonly drained: number;
  /** Slices of a drain before those that count, until the code that handles messages has been compiled to its end. */
  readonly warmUps: number;
  /** Idle tenants, each with a database of its own. */
  readonly idleTenants: number;
  readonly smallBacklog: number;
  /** Pending, and the same number of Done rows beside them. */
  readonly largeBacklog: number;
  readonly claimsPerRound: number;
  readonly deadLetters: number;
  /** Runs of a dispatcher, each with a budget at random from a second on. */
  readonly budgets: number;
  readonly longestBudgetMs: number;
  /** Rounds beside a slow handler, and quick messages of each side in each of them. */
  readonly neighbourRounds: number;
  readonly quickMessages: number;
  /** Fleets of workers that lose one. */
  readonly kills: number;
  readonly killedWhile: readonly KilledWhile[];
  /** Messages to another service, or calls of the inbox service, in one round: several at once; and messages one after the other. */
  readonly messagesPerRound: Readonly<Record<DatabaseName, number>>;
  readonly singleMessages: number;
}

/** What handlers do while one of their workers is killed. */
export interface KilledWhile {
  readonly title: string;
  readonly shortestMs: number;
  readonly longestMs: number;
  /** Throughput is counted in windows of this length. */
  readonly windowMs: number;
}

const quickHandlers: KilledWhile = {
  title: "handlers of 5–20 ms",
  shortestMs: 5,
  longestMs: 20,
  windowMs: 1_000,
};
const slowHandlers: KilledWhile = {
  title: "handlers of 1 s",
  shortestMs: 500,
  longestMs: 1_500,
  windowMs: 2_000,
};

const full: Sizes = {
  rounds: 25,
  maxMs: 60_000,
  receivesPerRound: { sqlite: 4_000, postgres: 600, sqlserver: 600 },
  batchesPerRound: { sqlite: 20, postgres: 10, sqlserver: 10 },
  drained: 50_000,
  warmUps: 16,
  idleTenants: 20,
  smallBacklog: 10_000,
  largeBacklog: 1_000_000,
  claimsPerRound: 40,
  deadLetters: 100_000,
  budgets: 200,
  longestBudgetMs: 10_000,
  neighbourRounds: 8,
  quickMessages: 100,
  kills: 3,
  killedWhile: [quickHandlers, slowHandlers],
  messagesPerRound: { sqlite: 1_000, postgres: 600, sqlserver: 600 },
  singleMessages: 100,
};

const quick: Sizes = {
  rounds: 9,
  maxMs: 1_500,
  receivesPerRound: { sqlite: 1_000, postgres: 100, sqlserver: 100 },
  batchesPerRound: { sqlite: 8, postgres: 4, sqlserver: 4 },
  drained: 5_400,
  warmUps: 1,
  idleTenants: 4,
  smallBacklog: 10_000,
  largeBacklog: 50_000,
  claimsPerRound: 15,
  deadLetters: 5_000,
  budgets: 10,
  longestBudgetMs: 3_000,
  neighbourRounds: 2,
  quickMessages: 20,
  kills: 1,
  killedWhile: [quickHandlers],
  messagesPerRound: { sqlite: 400, postgres: 200, sqlserver: 200 },
  singleMessages: 40,
};

export interface BenchOptions {
  readonly scenarios: readonly ScenarioName[];
  readonly databases: readonly DatabaseName[];
  readonly sizes: Sizes;
  readonly jsonFile: string | undefined;
  /** Of SQL Server, which is measured only where it is given. */
  readonly url: string | undefined;
}

/** The others compare with programs, or in ways, that exist for PostgreSQL or SQLite alone. */
export const sqlServerScenarios: readonly ScenarioName[] = [
  "receive",
  "batch-ingest",
  "drain",
  "dispatch",
  "partitions",
  "backlog",
  "round-trips",
];

export const usage = `usage: npm run bench -- [--quick] [--only NAME] [--database NAME] [--url URL] [--json FILE]

  --quick          smaller numbers and fewer rounds: the whole run in three minutes
  --only NAME      one scenario: ${scenarioNames.join(", ")}
  --database NAME  one database: ${databaseNames.join(", ")}
  --url URL        mssql://…: measures SQL Server there, in the scenarios ${sqlServerScenarios.join(", ")}
  --json FILE      also write [{ name, database, rate, ratio, ratioTo, spread }]`;

/** Throws an error whose message is for the person at the keyboard. */
export function parseOptions(args: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: "boolean", default: false },
      only: { type: "string" },
      database: { type: "string" },
      url: { type: "string" },
      json: { type: "string" },
    },
  });
  if (values.json === "") throw new Error("--json needs the name of a file.");
  if (values.url !== undefined && !values.url.startsWith("mssql://"))
    throw new Error("--url must be the URL of a SQL Server: mssql://user:password@host:1433/database.");
  if (values.database === "sqlserver" && values.url === undefined)
    throw new Error("--database sqlserver needs --url mssql://user:password@host:1433/database.");
  return {
    url: values.url,
    scenarios: chosen(values.only, scenarioNames, "--only"),
    databases: chosen(values.database, databaseNames, "--database").filter(
      (name) => name !== "sqlserver" || values.url !== undefined,
    ),
    sizes: values.quick ? quick : full,
    jsonFile: values.json,
  };
}

function chosen<Name extends string>(
  value: string | undefined,
  known: readonly Name[],
  option: string,
): readonly Name[] {
  if (value === undefined) return known;
  const found = known.filter((name) => name === value);
  if (found.length === 0) throw new Error(`${option}: there is no "${value}". Known: ${known.join(", ")}.`);
  return found;
}
