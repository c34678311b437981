import type { BenchDatabase } from "../databases/bench-database.js";
import type { DatabaseName, Sizes } from "../options.js";
import type { ResultRow } from "../report.js";

export interface ScenarioInput {
  readonly database: BenchDatabase;
  readonly databaseName: DatabaseName;
  readonly sizes: Sizes;
}

/** Opens what it needs, measures, closes it again. */
export type Scenario = (input: ScenarioInput) => Promise<readonly ResultRow[]>;
