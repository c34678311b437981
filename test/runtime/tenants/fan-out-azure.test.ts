import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { azureFanOut } from "../../../src/adapters/azure/wake-up.js";
import { readAzureSettings } from "../../../src/config/azure-settings.js";
import { tenantBatchIn } from "../../../src/tenants/fan-out/tenant-batch.js";
import { type Azurite, startAzurite } from "../azure/azurite.js";
import { localTls } from "../azure/local-tls.js";

let azurite: Azurite;
beforeAll(async () => {
  azurite = await startAzurite();
});
afterAll(() => azurite?.stop());

describe("fan-out on Azure", () => {
  it("FUN-07 a tenant batch is a message of the queue that wakes the dispatcher, and may be as long as a message", async () => {
    const tenants = Array.from({ length: 155 }, (_, index) => `${index}`.padEnd(255, "x")); // 40,000 bytes
    const batch = { tenants, until: 1_900_000_000_000 };
    const child = fileURLToPath(new URL("storage-queue-child.ts", import.meta.url));
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--no-warnings", "--import", "tsx", child, JSON.stringify(batch)],
      {
        env: {
          ...process.env,
          ...localTls.env,
          ONCEBOX_WAKE_QUEUE: "batches",
          AzureWebJobsStorage: azurite.connectionString,
        },
      },
    );
    const texts = JSON.parse(stdout.trim().split("\n").at(-1)!) as string[];
    expect(texts).toHaveLength(1);
    // The trigger decodes it and parses the JSON before the function sees it.
    expect(tenantBatchIn(JSON.parse(Buffer.from(texts[0]!, "base64").toString()))).toEqual(batch);
  });

  it("FUN-07 without a queue there are no workers, and one function does it all", () => {
    expect(azureFanOut(readAzureSettings({}))).toBeUndefined();
  });
});
