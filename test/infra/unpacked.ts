import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { unzipSync } from "fflate";

/** An archive's content in a folder with nothing above it: what is not in the archive cannot be imported. */
export async function unpacked(archive: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-unpacked-"));
  for (const [name, bytes] of Object.entries(unzipSync(await readFile(archive)))) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), bytes);
  }
  return folder;
}
