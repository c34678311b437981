import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { bundle, esbuildOptions } from "../../src/packaging/bundle-functions.js";
import { stripeHttpEvent, webhookSecret } from "../../test/runtime/aws/http-events.js";
import { compare } from "../measure.js";
import type { DatabaseName } from "../options.js";
import type { Scenario } from "./scenario.js";

const inBench = (file: string) => fileURLToPath(new URL(`../cold-start/${file}`, import.meta.url));
const packages = fileURLToPath(new URL("../../node_modules", import.meta.url));

/** From the start of a process to the first answer of a webhook function. */
export const coldStart: Scenario = async ({ database, databaseName, sizes }) => {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-cold-start-"));
  const target = await database.openForFunctions();
  try {
    await bundleBoth(databaseName, folder);
    let started = 0;
    const firstAnswerOf = (name: string) => async (): Promise<number> => {
      const event = JSON.stringify(stripeHttpEvent({ id: `evt_${++started}` }));
      const file = pathToFileURL(join(folder, `${name}.mjs`)).href;
      return firstAnswerMs(file, {
        ...target.env,
        BENCH_EVENT: event,
        BENCH_SECRET: webhookSecret,
        ONCEBOX_LOG_LEVEL: "warn",
      });
    };
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
        target: { atMost: 1.25 },
      },
    ];
  } finally {
    await target.close();
    await rm(folder, { recursive: true, force: true });
  }
};

/** Each as it would be deployed: ours by `npm run build:functions`, the other by esbuild with the same settings. */
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

async function firstAnswerMs(file: string, env: Readonly<Record<string, string>>): Promise<number> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, ["--no-warnings", inBench("first-answer.mjs"), file], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let answeredAt = 0;
  let printed = "";
  child.stdout.on("data", (chunk) => {
    printed += chunk;
    if (answeredAt === 0 && printed.includes("status 200")) answeredAt = performance.now();
  });
  await once(child, "exit");
  if (answeredAt === 0) throw new Error(`cold-start: no answer, but: ${printed}`);
  return answeredAt - startedAt;
}
