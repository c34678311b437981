import { pathToFileURL } from "node:url";
import type { Database, migrate } from "../../src/index.js";
import type { bundle } from "../../src/packaging/bundle-functions.js";
import type { openPostgres } from "../../src/sql/postgres/index.js";
import type { openSqlite } from "../../src/sql/sqlite/index.js";
import type { FunctionsTarget } from "../databases/bench-database.js";
import type { ScenarioInput } from "../scenarios/scenario.js";

/**
 * Bundles the webhook function of another checkout into the folder, by that checkout's own code, and makes the tables
 * that it expects.
 */
export async function bundleBefore(
  checkout: string,
  { database, databaseName }: ScenarioInput,
  outFolder: string,
): Promise<FunctionsTarget> {
  const load = <Module>(file: string): Promise<Module> =>
    import(pathToFileURL(`${checkout}/${file}`).href) as Promise<Module>;
  const packaging = await load<{ bundle: typeof bundle }>("src/packaging/bundle-functions.ts");
  const entryPoints = [`${checkout}/bench/cold-start/webhook.ts`];
  const external = ["@aws-sdk/*"];
  await packaging.bundle({ database: databaseName, entryPoints, external, outFolder });

  const { url, schema, close } = database.newPlace();
  const db: Database =
    databaseName === "sqlite"
      ? (await load<{ openSqlite: typeof openSqlite }>("src/sql/sqlite/index.ts")).openSqlite({
          file: url.replace("sqlite:", ""),
        })
      : (await load<{ openPostgres: typeof openPostgres }>("src/sql/postgres/index.ts")).openPostgres({
          url,
        });
  const inSchema = schema === "" ? {} : { schema };
  await (await load<{ migrate: typeof migrate }>("src/index.ts")).migrate(db, inSchema);
  await db.close();
  return { env: { ONCEBOX_DATABASE_URL: url, ...(schema === "" ? {} : { BENCH_SCHEMA: schema }) }, close };
}
