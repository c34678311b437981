// Runs the suites of Redis, RabbitMQ, MongoDB, NATS and Kafka, on servers that a URL names, that are on the PATH or that Docker
// has. It installs nothing, starts each server once, and says what it ran on and what it left out.
//   --list   only says what it would run
//   --all    ends with 1 where a server is missing
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findServer, needs } from "../test/support/servers/find-server.js";
import { untilOpen } from "../test/support/servers/until-open.js";
import { type TestServer, testServers } from "../test/support/servers/versions.js";
import type { StartedServer } from "../test/support/start-postgres.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const flags = process.argv.slice(2);
const isList = flags.includes("--list");
const started: StartedServer[] = [];

try {
  process.exitCode = await runSuites();
} finally {
  for (const server of started) await server.stop();
}

async function runSuites(): Promise<number> {
  const urls: Record<string, string> = {};
  for (const server of testServers) {
    const url = await startServer(server);
    if (url !== undefined) urls[server.recipe.variable] = url;
  }
  const missing = testServers.filter(({ recipe }) => urls[recipe.variable] === undefined);
  const suites = suitesOfServers();
  if (isList) console.log(suites.join("\n"));
  if (flags.includes("--all") && missing.length > 0) return 1;
  if (isList) return 0;
  if (missing.length === testServers.length) return 1; // nothing to run on, so nothing is shown
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const env = { ...process.env, ...urls };
  const child = spawn(process.execPath, [vitest, "run", ...suites], { cwd: root, env, stdio: "inherit" });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
}

/** Returns its URL, or undefined where it cannot be had. */
async function startServer({ name, recipe, describe }: TestServer): Promise<string | undefined> {
  const start = await findServer(recipe);
  if (start === undefined) {
    console.log(`${name}: skipped, ${needs(recipe)}`);
    return undefined;
  }
  const where = process.env[recipe.variable] ? recipe.variable : "started for this run";
  if (isList) {
    console.log(`${name}: found (${where})`);
    return "";
  }
  const server = await start();
  started.push(server);
  console.log(`${name}: ${await untilOpen(() => describe(server.url))} (${where})`);
  return server.url;
}

/** The tests that ask for a server. */
function suitesOfServers(): readonly string[] {
  return readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
    .map((name) => `test/${name.replaceAll("\\", "/")}`)
    .filter((name) => name.endsWith(".test.ts"))
    .filter((name) => readFileSync(join(root, name), "utf8").includes("await findServer("))
    .sort();
}
