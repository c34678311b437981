import type { TestProject } from "vitest/node";
import { startPostgres } from "./start-postgres.js";
import { startSqlServer } from "./start-sqlserver.js";

declare module "vitest" {
  interface ProvidedContext {
    postgresUrl: string;
    /** Empty when no SQL Server can be had. */
    sqlServerUrl: string;
  }
}

/** Starts the real servers once for the whole run, and stops them at its end. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, sqlServer] = await Promise.all([startPostgres(), startSqlServer()]);
  project.provide("postgresUrl", postgres.url);
  project.provide("sqlServerUrl", sqlServer.url);
  return async () => {
    await Promise.all([postgres.stop(), sqlServer.stop()]);
  };
}
