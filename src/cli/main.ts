#!/usr/bin/env node
import { relative } from "node:path";
import { processEnv } from "../config/environment.js";
import { runCli } from "./run.js";

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  // The first asks to finish what runs; the second, by Node's default, ends the process.
  process.once(signal, () => stopping.abort());
}
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    stopping.abort(); // `| head` has read enough
  });
}

/** In a clone of the repository nothing is built or installed. */
const [, file = ""] = process.argv;
const self = file.endsWith(".ts") ? `npx tsx ${relative("", file)}` : "npx oncebox";

process.exitCode = await runCli(process.argv.slice(2), {
  env: processEnv,
  self,
  isInteractive: process.stderr.isTTY === true,
  out: (line) => void process.stdout.write(`${line}\n`),
  err: (line) => void process.stderr.write(`${line}\n`),
  signal: stopping.signal,
});
