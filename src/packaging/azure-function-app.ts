import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** What the Functions host wants beside the bundle: with these the folder is a function app, ready to be zipped. */
export async function writeFunctionApp(folder: string, outFolder: string): Promise<void> {
  const manifest = { name: "oncebox-functions", private: true, type: "module", main: "main.mjs" };
  await writeFile(join(outFolder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  await copyFile(join(folder, "host.json"), join(outFolder, "host.json"));
}
