import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { unzipSync } from "fflate";

/** Unpacks an archive into a folder without node_modules above it, so that only the archive's files can be imported. */
export async function unpacked(archive: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-unpacked-"));
  for (const [name, bytes] of Object.entries(unzipSync(await readFile(archive)))) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), bytes);
  }
  return folder;
}
