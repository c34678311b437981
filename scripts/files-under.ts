import { readdirSync } from "node:fs";
import { join } from "node:path";

/** The files of a folder and of those in it, whose names end so. */
export const filesUnder = (folder: string, ending: string): readonly string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => join(entry.parentPath, entry.name));
