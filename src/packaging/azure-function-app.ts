import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Writes the files that the Functions host needs besides the bundle. The folder is then a complete function app. */
export async function writeFunctionApp(folder: string, outFolder: string): Promise<void> {
  const manifest = { name: "oncebox-functions", private: true, type: "module", main: "main.mjs" };
  await writeFile(join(outFolder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  await copyFile(join(folder, "host.json"), join(outFolder, "host.json"));
}
