import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, posix, relative, resolve, sep } from "node:path";
import { type Zippable, zipSync } from "fflate";
import { InvalidArgumentError } from "../errors.js";
import { type BundleOptions, bundleFunctions, importsLazyWebhooks } from "./bundle-functions.js";
import { webhooksFolder } from "./lazy-webhooks.js";

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
  await emptyOutput(options, basename(folder));
  const { outputs } = await bundleFunctions({ ...options, outFolder: folder });
  const all = await filesIn(folder);
  const files = all.filter((file) => !isMap(file));
  await moveFiles(folder, join(outFolder, "source-maps"), all.filter(isMap));
  const receivers = Object.entries(outputs).filter(([, output]) => importsLazyWebhooks(output));
  const names = receivers.map(([file]) => basename(file, ".mjs"));
  const contents = cloud === "aws" ? byFunction(files, names) : new Map([["app", files]]);
  const archives: Archive[] = [];
  for (const [name, parts] of contents) {
    const file = join(outFolder, `${name}.zip`);
    archives.push({ file, bytes: await writeArchive(file, folder, parts) });
  }
  return archives;
}

/** Deletes an earlier output. A folder with anything else in it, such as the project itself, is refused. */
async function emptyOutput({ folder = ".", outFolder }: BundleOptions, bundles: string): Promise<void> {
  const entries = await readdir(outFolder).catch(() => []);
  const isOutput = (name: string) => name === bundles || name === "source-maps" || name.endsWith(".zip");
  const others = entries.filter((name) => !isOutput(name));
  const holdsProject = !relative(resolve(outFolder), resolve(folder)).startsWith("..");
  if (holdsProject || others.length > 0)
    throw new InvalidArgumentError(
      `${outFolder} ${holdsProject ? "holds the project" : `has ${others[0]} in it, which is no earlier output`}, and the output folder is emptied first. Name a new folder.`,
    );
  await rm(outFolder, { recursive: true, force: true });
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

/**
 * Groups the files by function: `webhook.mjs` and `webhook.mjs.LEGAL.txt` belong to `webhook`, `migrate.users-postgres.sql` to
 * `migrate`, and to those that receive webhooks also the presets.
 */
function byFunction(files: readonly string[], receivers: readonly string[]): Map<string, readonly string[]> {
  const isPreset = (file: string) => dirname(file) === webhooksFolder;
  const own = files.filter((file) => !isPreset(file));
  const names = own.filter((file) => file.endsWith(".mjs")).map((file) => file.slice(0, -".mjs".length));
  const filesOf = (name: string) => [
    ...own.filter((file) => file.startsWith(`${name}.`)),
    ...(receivers.includes(name) ? files.filter(isPreset) : []),
  ];
  return new Map(names.sort().map((name) => [name, filesOf(name)]));
}

/** Readable by all users: a runtime unpacks the archive as one user and reads it as another. */
const attributes = { os: 3, attrs: (0o100644 << 16) >>> 0, mtime: new Date(1980, 0, 2) } as const;

/** Writes a zip file and returns its size. The same content gives the same bytes, so that an unchanged function is not deployed again. */
async function writeArchive(file: string, folder: string, names: readonly string[]): Promise<number> {
  const entries: Zippable = {};
  for (const name of [...names].sort()) {
    const path = name.split(sep).join(posix.sep);
    entries[path] = [await readFile(join(folder, name)), attributes];
  }
  const bytes = zipSync(entries, { level: 9 });
  await writeFile(file, bytes);
  return bytes.length;
}
