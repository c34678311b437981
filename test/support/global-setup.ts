import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startPostgres } from "./start-postgres.js";
import { startSqlServer } from "./start-sqlserver.js";

declare module "vitest" {
  interface ProvidedContext {
    postgresUrl: string;
    /** Empty when no SQL Server can be had. */
    sqlServerUrl: string;
    /** Where the tests that need the packed package make it, once. */
    packageFolder: string;
  }
}

/** Starts the real servers once for the whole run, and stops them at its end. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, sqlServer] = await Promise.all([startPostgres(), startSqlServer()]);
  project.provide("postgresUrl", postgres.url);
  project.provide("sqlServerUrl", sqlServer.url);
  const packageFolder = await mkdtemp(join(tmpdir(), "oncebox-package-"));
  project.provide("packageFolder", packageFolder);
  return async () => {
    await Promise.all([postgres.stop(), sqlServer.stop()]);
    await rm(packageFolder, { recursive: true, force: true });
  };
}
