import { readdir, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { writeArchive } from "./archive.js";
import { type BundleOptions, bundleFunctions } from "./bundle-functions.js";

export interface Archive {
  readonly file: string;
  readonly bytes: number;
}

/**
 * Writes the archives to deploy into `outFolder`: for AWS one per function, with the names in serverless.yml; for Azure
 * the whole function app as a folder and as an archive. Source maps are left out of archives: they slow the start down.
 */
export async function packageFunctions(options: BundleOptions): Promise<readonly Archive[]> {
  const { cloud, outFolder } = options;
  const folder = join(outFolder, cloud === "aws" ? "functions" : "app");
  await rm(outFolder, { recursive: true, force: true });
  await bundleFunctions({ ...options, outFolder: folder });
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile() && !entry.name.endsWith(".map"))
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
  const contents = cloud === "aws" ? byFunction(files) : new Map([["app", files]]);
  const archives: Archive[] = [];
  for (const [name, names] of contents) {
    const file = join(outFolder, `${name}.zip`);
    archives.push({ file, bytes: await writeArchive(file, folder, names) });
  }
  return archives;
}

/** Groups the files by function: `webhook.mjs` and `webhook.mjs.LEGAL.txt` belong to `webhook`, `migrate.users-postgres.sql` to `migrate`. */
function byFunction(files: readonly string[]): Map<string, readonly string[]> {
  const names = files.filter((file) => file.endsWith(".mjs")).map((file) => file.slice(0, -".mjs".length));
  return new Map(names.sort().map((name) => [name, files.filter((file) => file.startsWith(`${name}.`))]));
}
