import { copyFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { BundledDatabase } from "./databases.js";

const sqlFolder = "infra/sql";

/** What the migration function runs after a migration. An app that runs them by hand may have deleted them. */
async function userScripts(
  folder: string,
  databases: readonly BundledDatabase[],
): Promise<readonly string[]> {
  const wanted = databases.map((database) => `users-${database}.sql`);
  return (await readdir(join(folder, sqlFolder)).catch(() => [])).filter((name) => wanted.includes(name));
}

/** Writes the files that the Functions host needs besides the bundle. The folder is then a complete function app. */
export async function writeFunctionApp(
  folder: string,
  outFolder: string,
  databases: readonly BundledDatabase[],
): Promise<void> {
  const manifest = { name: "oncebox-functions", private: true, type: "module", main: "main.mjs" };
  await writeFile(join(outFolder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  await copyFile(join(folder, "host.json"), join(outFolder, "host.json"));
  for (const script of await userScripts(folder, databases)) {
    await copyFile(join(folder, sqlFolder, script), join(outFolder, script));
  }
}
