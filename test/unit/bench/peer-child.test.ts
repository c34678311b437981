import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { startPeerChild } from "../../../bench/peers/peer-child.js";

/** A process of a measurement with this code. */
async function child(code: string): Promise<URL> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-bench-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "peer.mjs");
  await writeFile(file, code);
  return pathToFileURL(file);
}

const start = async (code: string, answerMs?: number) =>
  startPeerChild(await child(code), ["silent"], process.execPath, answerMs);

it("a process that never gets ready is given up and killed", async () => {
  const starting = start("setInterval(() => {}, 1_000);", 300);
  await expect(starting).rejects.toThrow("The process peer.mjs (silent): its start took longer than 0.3 s.");
});

it("a process that ends instead of answering says how, and closing it hides no error", async () => {
  const code = `process.on("message", () => process.exit(3)); process.send("ready");`;
  const { ask, close } = await start(code);
  await expect(ask(7)).rejects.toThrow("The process peer.mjs (silent) ended with 3.");
  await close();
});
