import { existsSync } from "node:fs";
import { open } from "node:fs/promises";

/** Overwrites a SQLite file, by default after its first page, and its WAL after the header. */
export async function damageFile(file: string, from = 4_096): Promise<void> {
  await overwrite(file, from);
  if (existsSync(`${file}-wal`)) await overwrite(`${file}-wal`, 32);
}

async function overwrite(path: string, from: number): Promise<void> {
  const opened = await open(path, "r+");
  const { size } = await opened.stat();
  if (size > from) await opened.write(Buffer.alloc(size - from, 0xa5), 0, size - from, from);
  await opened.close();
}
