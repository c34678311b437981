import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import type { DispatchReport } from "../../../src/index.js";
import { type BundleFolder, bundleTestApp } from "./bundle-folder.js";
import { type FunctionsDatabase, postgresForFunctions } from "./functions-database.js";
import { answerOf, stripeHttpEvent } from "./http-events.js";
import { lambdaFunction } from "./lambda-function.js";

const run = promisify(execFile);

/** The binary of the npm package "node". Undefined when it is not cached and cannot be downloaded. */
async function nodeOf(version: string): Promise<string | undefined> {
  try {
    const { stdout } = await run(
      "npm",
      [
        "exec",
        "--yes",
        "--prefer-offline",
        `--package=node@${version}`,
        "--",
        "node",
        "-p",
        "process.execPath",
      ],
      { shell: process.platform === "win32" },
    );
    return stdout.trim();
  } catch {
    return undefined;
  }
}

const url = inject("postgresUrl");
const versions = ["20", "22", "24"].filter((version) => !process.version.startsWith(`v${version}.`));
const nodes = await Promise.all(versions.map(async (version) => ({ version, node: await nodeOf(version) })));

describe.each(nodes)("Lambda functions on Node $version", ({ node }) => {
  let bundles: BundleFolder;
  let data: FunctionsDatabase;

  beforeAll(async () => {
    bundles = await bundleTestApp("postgres");
    data = await postgresForFunctions(url);
  });
  afterAll(async () => {
    await data.close();
    await bundles.remove();
  });

  it.skipIf(node === undefined)("FUN-09 the same bundles receive a webhook and handle it", async () => {
    const start = (name: string) =>
      lambdaFunction({ folder: bundles.folder, handler: `${name}.handler`, env: data.env, node: node! });
    const webhook = start("webhook");
    const dispatch = start("dispatch");
    try {
      const send = async () =>
        answerOf(await webhook.invoke<APIGatewayProxyStructuredResultV2>(stripeHttpEvent({ id: "evt_1" })));
      expect(await send()).toEqual({ status: 200, outcome: "enqueued" });
      expect(await send()).toEqual({ status: 200, outcome: "duplicate" });
      const report = await dispatch.invoke<DispatchReport>({});
      expect(report).toMatchObject({ inbox: { acked: 1 }, outbox: { acked: 1 } });
      expect(await data.effects()).toEqual(["evt_1", "receipt of evt_1"]);
    } finally {
      await Promise.all([webhook.close(), dispatch.close()]);
    }
  });
});
