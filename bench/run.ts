import { openPostgresBench } from "./databases/postgres.js";
import { openSqliteBench } from "./databases/sqlite.js";
import { openSqlServerBench } from "./databases/sqlserver.js";
import {
  type BenchOptions,
  type DatabaseName,
  parseOptions,
  type ScenarioName,
  sqlServerScenarios,
  usage,
} from "./options.js";
import { formatTable, type ResultRow, writeJson } from "./report.js";
import { backlog } from "./scenarios/backlog.js";
import { batchIngest } from "./scenarios/batch-ingest.js";
import { coldStart } from "./scenarios/cold-start.js";
import { deadLetters } from "./scenarios/dead-letters.js";
import { deadline } from "./scenarios/deadline.js";
import { dispatch } from "./scenarios/dispatch.js";
import { drain } from "./scenarios/drain.js";
import { idlePoll } from "./scenarios/idle-poll.js";
import { inboxService } from "./scenarios/inbox-service.js";
import { killedWorker } from "./scenarios/killed-worker.js";
import { messaging } from "./scenarios/messaging.js";
import { partitions } from "./scenarios/partitions.js";
import { receive } from "./scenarios/receive.js";
import { roundTrips } from "./scenarios/round-trips.js";
import type { Scenario } from "./scenarios/scenario.js";
import { slowNeighbour } from "./scenarios/slow-neighbour.js";
import { telemetry } from "./scenarios/telemetry.js";
import { tenants } from "./scenarios/tenants.js";

const scenarios: Readonly<Record<ScenarioName, Scenario>> = {
  receive,
  "batch-ingest": batchIngest,
  drain,
  dispatch,
  partitions,
  deadline,
  backlog,
  "round-trips": roundTrips,
  "idle-poll": idlePoll,
  tenants,
  "cold-start": coldStart,
  "slow-neighbour": slowNeighbour,
  "killed-worker": killedWorker,
  messaging,
  "inbox-service": inboxService,
  telemetry,
  "dead-letters": deadLetters,
};

const databases = {
  sqlite: openSqliteBench,
  postgres: openPostgresBench,
  sqlserver: openSqlServerBench,
} as const;

async function run(options: BenchOptions): Promise<void> {
  const rows: ResultRow[] = [];
  for (const name of options.databases) rows.push(...(await runOn(name, options)));
  console.log(`\n${formatTable(rows)}`);
  if (options.jsonFile !== undefined) await writeJson(options.jsonFile, rows);
}

async function runOn(
  databaseName: DatabaseName,
  { scenarios: chosen, sizes, url = "" }: BenchOptions,
): Promise<readonly ResultRow[]> {
  const database = await databases[databaseName](url);
  const rows: ResultRow[] = [];
  try {
    for (const name of chosen) {
      if (databaseName === "sqlserver" && !sqlServerScenarios.includes(name)) continue;
      // Beside the results, so that `> file` holds the table alone; a run that is broken off has still said something.
      console.error(`${database.title}: ${name} …`);
      for (const row of await scenarios[name]({ database, databaseName, sizes })) {
        console.error(`  ${row.name}: ratio ${row.ratio.toFixed(2)}`);
        rows.push(row);
      }
    }
  } finally {
    await database.close();
  }
  return rows;
}

function optionsOrExit(): BenchOptions {
  try {
    return parseOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usage}`);
    process.exit(2);
  }
}

await run(optionsOrExit());
