import { existsSync, type FSWatcher, watch } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

const isCode = (name: string | null): boolean => name !== null && /\.([cm]?[jt]s|json)$/.test(name);

/** Resolves when a source file of the app's project changes, and is undefined when the signal aborts before. */
export async function nextChange(app: string, signal: AbortSignal): Promise<string | undefined> {
  const watchers: FSWatcher[] = [];
  const folders = await foldersUnder(projectOf(app));
  try {
    return await new Promise<string | undefined>((resolve) => {
      if (signal.aborted) return resolve(undefined);
      signal.addEventListener("abort", () => resolve(undefined), { once: true });
      for (const folder of folders) {
        const onChange = (_: string, name: string | null) => {
          if (isCode(name)) resolve(join(folder, name!));
        };
        // a folder may have been removed since it was listed
        watchers.push(watch(folder, onChange).on("error", () => {}));
      }
    });
  } finally {
    for (const watcher of watchers) watcher.close();
  }
}

/** The folder with the package.json above the app, or else the app's own. */
function projectOf(app: string): string {
  const own = dirname(resolve(app));
  for (let folder = own; dirname(folder) !== folder; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return folder;
  }
  return own;
}

/** Without installed packages, which do not change, and hidden folders. Each folder is watched by itself: that works everywhere. */
async function foldersUnder(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const inner = entries.filter(
    (entry) => entry.isDirectory() && entry.name !== "node_modules" && !entry.name.startsWith("."),
  );
  const nested = await Promise.all(inner.map(({ name }) => foldersUnder(join(folder, name))));
  return [folder, ...nested.flat()];
}
