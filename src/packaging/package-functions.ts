import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { writeArchive } from "./archive.js";
import { type BundleOptions, bundleFunctions } from "./bundle-functions.js";

export interface Archive {
  readonly file: string;
  readonly bytes: number;
}

/**
 * Writes the archives to deploy into `outFolder`: for AWS one per function, with the names in serverless.yml; for Azure
 * the whole function app as a folder and as an archive. Source maps are in neither, because they slow the start down: they
 * are in `source-maps`.
 */
export async function packageFunctions(options: BundleOptions): Promise<readonly Archive[]> {
  const { cloud, outFolder } = options;
  const folder = join(outFolder, cloud === "aws" ? "functions" : "app");
  await rm(outFolder, { recursive: true, force: true });
  await bundleFunctions({ ...options, outFolder: folder });
  const all = await filesIn(folder);
  const files = all.filter((file) => !isMap(file));
  await moveFiles(folder, join(outFolder, "source-maps"), all.filter(isMap));
  const contents = cloud === "aws" ? byFunction(files) : new Map([["app", files]]);
  const archives: Archive[] = [];
  for (const [name, names] of contents) {
    const file = join(outFolder, `${name}.zip`);
    archives.push({ file, bytes: await writeArchive(file, folder, names) });
  }
  return archives;
}

const isMap = (file: string): boolean => file.endsWith(".map");

const filesIn = async (folder: string): Promise<readonly string[]> =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));

async function moveFiles(from: string, to: string, files: readonly string[]): Promise<void> {
  for (const file of files) {
    await mkdir(dirname(join(to, file)), { recursive: true });
    await rename(join(from, file), join(to, file));
  }
}

/** Groups the files by function: `webhook.mjs` and `webhook.mjs.LEGAL.txt` belong to `webhook`. */
function byFunction(files: readonly string[]): Map<string, readonly string[]> {
  const names = files.filter((file) => file.endsWith(".mjs")).map((file) => file.slice(0, -".mjs".length));
  return new Map(names.sort().map((name) => [name, files.filter((file) => file.startsWith(`${name}.mjs`))]));
}
