import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundleFunctions } from "../../../src/packaging/bundle-functions.js";
import { type ScenarioDatabase, scenarioApp } from "../scenarios.js";

export interface BuiltApp {
  readonly folder: string;
  remove(): Promise<void>;
}

/** Builds an app, the scenarios' app by default, as it would be deployed. */
export async function buildApp(
  app = scenarioApp,
  database: ScenarioDatabase = "postgres",
): Promise<BuiltApp> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-azure-"));
  await bundleFunctions({ cloud: "azure", database, app, outFolder: folder });
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}
