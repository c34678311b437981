import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundle, clouds, writeFunctionApp } from "../../../src/packaging/bundle-functions.js";
import type { WokenFunctions } from "../message-scenarios.js";
import type { BuiltApp } from "./built-app.js";
import { startFunctionsHost } from "./functions-host.js";

/** Builds the functions of messages, of test/runtime/message-app, for PostgreSQL. */
export async function buildMessageApp(): Promise<BuiltApp> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-azure-"));
  const main = fileURLToPath(new URL("../message-app/azure/main.ts", import.meta.url));
  await bundle({ ...clouds.azure, database: "postgres", entryPoints: [main], outFolder: folder });
  await writeFunctionApp(fileURLToPath(new URL("../../..", import.meta.url)), folder, ["postgres"]);
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

const wakeUpMessage = 'wakeUpMessages took {"oncebox":"wake-up"}';
const names = { dispatch: "dispatchMessages", maintain: "maintainMessages" } as const;

export async function startMessageFunctions(
  folder: string,
  env: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<WokenFunctions> {
  const host = await startFunctionsHost(folder, env, timeoutMs);
  return {
    wakeUps: () => host.lines().filter(({ message }) => message === wakeUpMessage).length,
    settled: async () => {},
    address: `${host.url}/_rf/receive`,
    run: (name) => host.run(names[name]),
    logs: () => JSON.stringify(host.lines()),
    stop: () => host.stop(),
  };
}
