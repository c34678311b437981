#!/usr/bin/env node
import { processEnv } from "../config/environment.js";
import { runCli } from "./run.js";

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  // The first asks to finish what runs; the second, by Node's default, ends the process.
  process.once(signal, () => stopping.abort());
}

process.exitCode = await runCli(process.argv.slice(2), {
  env: processEnv,
  isInteractive: process.stderr.isTTY === true,
  out: (line) => void process.stdout.write(`${line}\n`),
  err: (line) => void process.stderr.write(`${line}\n`),
  signal: stopping.signal,
});
