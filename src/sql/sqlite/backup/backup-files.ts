import { createHash } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join, parse } from "node:path";
import { partialEnding, removeDatabase } from "./copy-database.js";

/** The back-ups of one database in one folder. */
export interface BackupFiles {
  /** Where a back-up that begins at this time is written. */
  pathAt(time: Date): string;
  /** The time of the newest one, in milliseconds; undefined when there is none. */
  newest(): Promise<number | undefined>;
  /** Deletes those from before this time, except the newest, and returns their paths. */
  deleteBefore(time: number): Promise<readonly string[]>;
}

/** A back-up writes all the time. What nobody has written to for this long belongs to a process that was killed. */
const partialAgeMs = 3_600_000;

/**
 * Back-ups are named `app.1f0c9a3e.20301231T235959999Z.db`: the database's name, a hash of its path, the time. The hash keeps
 * databases of the same name apart. A file with any other name is never touched.
 */
export function backupFiles(database: string, folder: string): BackupFiles {
  const hash = createHash("sha256").update(database).digest("hex").slice(0, 8);
  const prefix = `${parse(database).name}.${hash}.`;

  /** From the newest to the oldest. */
  const made = async (): Promise<{ readonly name: string; readonly time: number }[]> =>
    (await namesIn(folder))
      .flatMap((name) => {
        const time = name.startsWith(prefix) ? timeIn(name.slice(prefix.length)) : undefined;
        return time === undefined ? [] : { name, time };
      })
      .sort((a, b) => b.time - a.time);

  const deletePartials = async (): Promise<void> => {
    for (const name of await namesIn(folder)) {
      const [, whole] = partialName.exec(name.startsWith(prefix) ? name.slice(prefix.length) : "") ?? [];
      if (whole === undefined || timeIn(whole) === undefined) continue;
      const path = join(folder, name);
      if (Date.now() - (await stat(path)).mtimeMs > partialAgeMs) await removeDatabase(path);
    }
  };

  return {
    pathAt: (time) => join(folder, `${prefix}${time.toISOString().replaceAll(/[-:.]/g, "")}.db`),
    newest: async () => (await made())[0]?.time,
    async deleteBefore(time) {
      const [, ...older] = await made();
      const paths = older.filter((one) => one.time < time).map(({ name }) => join(folder, name));
      for (const path of paths) await rm(path, { force: true });
      await deletePartials();
      return paths;
    },
  };
}

const partialName = new RegExp(`^(.*)\\.[0-9a-f]{8}\\${partialEnding}$`);

async function namesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

function timeIn(text: string): number | undefined {
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z\.db$/.exec(text) ?? [];
  if (parts.length === 0) return undefined;
  const [year, month, day, hour, minute, second, ms] = parts;
  const time = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
  return Number.isNaN(time) ? undefined : time;
}
