import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { app as functionApp, type HttpResponseInit } from "@azure/functions";
import type { App } from "../../app/create-app.js";
import { safeReason } from "../../base/safe-reason.js";
import type { AzureSettings } from "../../config/azure-settings.js";
import type { MigrateResult } from "../../sql/migrate.js";
import { inInvocation, invocationLogger } from "./invocation-logger.js";

/**
 * `migrate`: by HTTP, with the function's key. It creates tables, roles and users as the identity of its function app,
 * which has more rights than the others. A deployment calls it before the other apps get their code.
 */
export function registerMigration(
  app: () => Promise<App>,
  { appFolder = "" }: Pick<AzureSettings, "appFolder">,
): void {
  const script = (name: string) => () => readFile(join(appFolder, name), "utf8");
  const scripts = { sqlserver: script("users-sqlserver.sql"), postgres: script("users-postgres.sql") };
  functionApp.http("migrate", {
    route: "migrate",
    methods: ["POST"],
    authLevel: "function",
    handler: (_, context) =>
      inInvocation(context, () =>
        answered(async () => {
          // Only this function needs them, and no other app should load them.
          const { readDatabaseUsers } = await import("../../config/database-users.js");
          const { prepareDatabases } = await import("../../app/prepare-databases.js");
          return prepareDatabases(await app(), { ...readDatabaseUsers(), scripts });
        }),
      ),
  });
}

/** The caller has the key, and needs to know why it failed. */
async function answered(work: () => Promise<MigrateResult>): Promise<HttpResponseInit> {
  const logger = invocationLogger("info");
  try {
    const result = await work();
    logger.info("migrated", { applied: result.applied.length });
    return { status: 200, jsonBody: result };
  } catch (error) {
    const reason = safeReason(error);
    logger.error("migration failed", { reason });
    return { status: 500, jsonBody: { error: reason } };
  }
}
