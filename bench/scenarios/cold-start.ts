import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundle, esbuildOptions } from "../../src/packaging/bundle-functions.js";
import { startEnvironment } from "../../test/runtime/aws/execution-environment.js";
import { stripeHttpEvent, webhookSecret } from "../../test/runtime/aws/http-events.js";
import { compare } from "../measure.js";
import type { DatabaseName } from "../options.js";
import type { Scenario } from "./scenario.js";

const inBench = (file: string) => fileURLToPath(new URL(`../cold-start/${file}`, import.meta.url));
const packages = fileURLToPath(new URL("../../node_modules", import.meta.url));

/**
 * Measures from the start of a process to the first answer of a webhook function. Both sides run under Amazon's own
 * runtime, as Lambda starts them.
 */
export const coldStart: Scenario = async ({ database, databaseName, sizes }) => {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-cold-start-"));
  const target = await database.openForFunctions();
  try {
    await bundleBoth(databaseName, folder);
    let started = 0;
    const env = { ...target.env, BENCH_SECRET: webhookSecret, ONCEBOX_LOG_LEVEL: "warn" };
    const firstAnswerOf = (name: string) => (): Promise<number> =>
      firstAnswerMs(folder, `${name}.handler`, env, stripeHttpEvent({ id: `evt_${++started}` }));
    const { rate, referenceRate, ratio, spread } = await compare(
      firstAnswerOf("webhook"),
      firstAnswerOf(`bare-${databaseName}`),
      sizes,
    );
    return [
      {
        name: "cold start of a webhook function",
        database: database.title,
        unit: "ms",
        rate,
        referenceRate,
        ratio,
        ratioTo: "a bare handler with the same driver",
        spread,
        ...(databaseName === "postgres" ? { target: { atMost: 1.25 } } : {}), // SQLite is not deployed to a cloud
      },
    ];
  } finally {
    await target.close();
    await rm(folder, { recursive: true, force: true });
  }
};

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
  const binding = "node_modules/@photostructure";
  await mkdir(join(folder, "node_modules"));
  await symlink(join(packages, "@photostructure"), join(folder, binding), "junction");
}

async function firstAnswerMs(
  folder: string,
  handler: string,
  env: Readonly<Record<string, string>>,
  event: unknown,
): Promise<number> {
  const startedAt = performance.now();
  const environment = await startEnvironment({
    folder,
    handler,
    env,
    timeoutMs: 30_000,
    node: process.execPath,
  });
  const answer = (await environment.invoke(event)) as { readonly statusCode: number };
  const answeredAt = performance.now();
  await environment.close();
  if (answer.statusCode !== 200) throw new Error(`cold-start: ${handler} answered ${answer.statusCode}.`);
  return answeredAt - startedAt;
}
