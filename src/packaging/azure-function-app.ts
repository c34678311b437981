import { copyFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const sqlFolder = "infra/sql";

/** What the migration function runs after a migration. An app that runs them by hand may have deleted them. */
const userScripts = async (folder: string): Promise<readonly string[]> =>
  (await readdir(join(folder, sqlFolder)).catch(() => [])).filter((name) => /^users-\w+\.sql$/.test(name));

/** Writes the files that the Functions host needs besides the bundle. The folder is then a complete function app. */
export async function writeFunctionApp(folder: string, outFolder: string): Promise<void> {
  const manifest = { name: "oncebox-functions", private: true, type: "module", main: "main.mjs" };
  await writeFile(join(outFolder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  await copyFile(join(folder, "host.json"), join(outFolder, "host.json"));
  for (const script of await userScripts(folder)) {
    await copyFile(join(folder, sqlFolder, script), join(outFolder, script));
  }
}
