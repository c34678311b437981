import { readFile, writeFile } from "node:fs/promises";
import { join, posix, sep } from "node:path";
import { type Zippable, zipSync } from "fflate";

/** Readable by all users: a runtime unpacks the archive as one user and reads it as another. */
const attributes = { os: 3, attrs: (0o100644 << 16) >>> 0, mtime: new Date(1980, 0, 2) } as const;

/** Writes a zip file and returns its size. The same content gives the same bytes, so that an unchanged function is not deployed again. */
export async function writeArchive(file: string, folder: string, names: readonly string[]): Promise<number> {
  const entries: Zippable = {};
  for (const name of [...names].sort()) {
    const path = name.split(sep).join(posix.sep);
    entries[path] = [await readFile(join(folder, name)), attributes];
  }
  const bytes = zipSync(entries, { level: 9 });
  await writeFile(file, bytes);
  return bytes.length;
}
