import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundle, esbuildOptions } from "../../src/packaging/bundle-functions.js";
import { type ExecutionEnvironment, startEnvironment } from "../../test/runtime/aws/execution-environment.js";
import { stripeHttpEvent, webhookSecret } from "../../test/runtime/aws/http-events.js";
import { bundleBefore } from "../cold-start/before.js";
import { cpuMsOf } from "../cold-start/cpu-time.js";
import type { FunctionsTarget } from "../databases/bench-database.js";
import { compare } from "../measure.js";
import type { DatabaseName } from "../options.js";
import type { ResultRow } from "../report.js";
import type { Scenario, ScenarioInput } from "./scenario.js";

const inBench = (file: string) => fileURLToPath(new URL(`../cold-start/${file}`, import.meta.url));
const packages = fileURLToPath(new URL("../../node_modules", import.meta.url));

/**
 * Measures from the start of a process to the first answer of a webhook function. All run under Amazon's own runtime, as
 * Lambda starts them. Against the checkout in ONCEBOX_BENCH_BASELINE it is the CPU time.
 */
export const coldStart: Scenario = async (input) => {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-cold-start-"));
  const target = await input.database.openForFunctions();
  try {
    await bundleBoth(input.databaseName, folder);
    const rows = [await againstBare(input, folder, target)];
    const baseline = process.env.ONCEBOX_BENCH_BASELINE;
    if (baseline !== undefined) rows.push(await againstBefore(baseline, input, folder));
    return rows;
  } finally {
    await target.close();
    await rm(folder, { recursive: true, force: true });
  }
};

async function againstBare(
  { database, databaseName, sizes }: ScenarioInput,
  folder: string,
  target: FunctionsTarget,
): Promise<ResultRow> {
  const result = await compare(
    () => firstAnswer({ folder, handler: "webhook.handler", target }).then(({ ms }) => ms),
    () => firstAnswer({ folder, handler: `bare-${databaseName}.handler`, target }).then(({ ms }) => ms),
    sizes,
  );
  return {
    name: "cold start of a webhook function",
    database: database.title,
    unit: "ms",
    ...result,
    ratioTo: "a bare handler with the same driver",
    ...(databaseName === "postgres" ? { target: { atMost: 1.25 } } : {}), // SQLite is not deployed to a cloud
  };
}

async function againstBefore(baseline: string, input: ScenarioInput, folder: string): Promise<ResultRow> {
  const before = join(folder, "before");
  const target = await input.database.openForFunctions(); // as empty as the other one
  const targetBefore = await bundleBefore(baseline, input, before);
  try {
    await linkBinding(before);
    const handler = "webhook.handler";
    const result = await compare(
      () => firstAnswer({ folder, handler, target }).then(({ cpuMs }) => cpuMs),
      () => firstAnswer({ folder: before, handler, target: targetBefore }).then(({ cpuMs }) => cpuMs),
      { ...input.sizes, rounds: 5 * input.sizes.rounds }, // a start takes 0.1 s, and a few percent are to be seen
    );
    return {
      name: "… its CPU time",
      database: input.database.title,
      unit: "CPU ms",
      ...result,
      ratioTo: "the checkout of before",
      target: { atMost: 1.02 },
    };
  } finally {
    await targetBefore.close();
    await target.close();
  }
}

/** Bundles both as they would be deployed: ours as `npm run build:functions` does, the bare one with the same settings. */
async function bundleBoth(database: DatabaseName, folder: string): Promise<void> {
  const external = ["@aws-sdk/*"];
  await bundle({ database, entryPoints: [inBench("webhook.ts")], external, outFolder: folder });
  await build({
    ...esbuildOptions,
    entryPoints: [inBench(`bare-${database}.ts`)],
    outdir: folder,
    external: ["pg-native", "@photostructure/sqlite"],
  });
  await linkBinding(folder);
}

async function linkBinding(folder: string): Promise<void> {
  await mkdir(join(folder, "node_modules"));
  const binding = "@photostructure";
  await symlink(join(packages, binding), join(folder, "node_modules", binding), "junction");
}

interface FunctionToStart {
  readonly folder: string;
  readonly handler: string;
  readonly target: FunctionsTarget;
}

let started = 0;

async function firstAnswer({ folder, handler, target }: FunctionToStart): Promise<{
  readonly ms: number;
  readonly cpuMs: number;
}> {
  const startedAt = performance.now();
  const environment = await startEnvironment({
    folder,
    handler,
    env: { ...target.env, BENCH_SECRET: webhookSecret, ONCEBOX_LOG_LEVEL: "warn" },
    timeoutMs: 30_000,
    node: process.execPath,
  });
  const answer = (await environment.invoke(stripeHttpEvent({ id: `evt_${++started}` }))) as {
    readonly statusCode: number;
  };
  const ms = performance.now() - startedAt;
  const cpuMs = await cpuMsWhenFrozen(environment);
  await environment.close();
  if (answer.statusCode !== 200) throw new Error(`cold-start: ${handler} answered ${answer.statusCode}.`);
  return { ms, cpuMs };
}

/** On another system than Linux it is not known. */
async function cpuMsWhenFrozen(environment: ExecutionEnvironment): Promise<number> {
  if (process.platform !== "linux") return Number.NaN;
  await environment.untilFrozen();
  return cpuMsOf(environment.pid);
}
