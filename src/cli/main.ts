#!/usr/bin/env node
import { relative } from "node:path";
import { escapeControls } from "../base/logger.js";
import { processEnv } from "../config/environment.js";
import { dropExperimentalWarnings, runCli, stopSignals } from "./run.js";

dropExperimentalWarnings();
const stopping = stopSignals();
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    stopping.abort(); // `| head` has closed the pipe
  });
}

/** In a clone of the repository the package is not built. */
const [, file = ""] = process.argv;
const self = file.endsWith(".ts") ? `npx tsx ${relative("", file)}` : "npx oncebox";

/** Replaces the current line. */
const redraw = (text: string): void => void process.stderr.write(`\r\u001b[K${text}`);

process.exitCode = await runCli(process.argv.slice(2), {
  env: processEnv,
  self,
  isInteractive: process.stderr.isTTY === true,
  columns: process.stdout.columns,
  ...(process.stderr.isTTY === true ? { redraw } : {}),
  out: (line) => void process.stdout.write(`${escapeControls(line)}\n`),
  err: (line) => void process.stderr.write(`${escapeControls(line)}\n`),
  signal: stopping.signal,
});
