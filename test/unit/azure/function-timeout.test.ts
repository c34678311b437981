import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseTimeout, runTimeMs } from "../../../src/adapters/azure/function-timeout.js";
import { readAzureSettings } from "../../../src/config/azure-settings.js";

describe("the function's time on Azure", () => {
  let appFolder: string;
  beforeAll(async () => {
    appFolder = await mkdtemp(join(tmpdir(), "oncebox-host-json-"));
  });
  afterAll(() => rm(appFolder, { recursive: true, force: true }));

  const runTimeWith = async (hostJson: string, functionTimeout?: string) => {
    await writeFile(join(appFolder, "host.json"), hostJson);
    return runTimeMs({ appFolder, functionTimeout });
  };

  it.each([
    { text: "00:05:00", ms: 300_000 },
    { text: "1.02:03:04", ms: (((24 + 2) * 60 + 3) * 60 + 4) * 1_000 },
    { text: "00:00:01.5000000", ms: 1_500 },
    { text: "-1", ms: Number.POSITIVE_INFINITY },
  ])("FUN-03 reads a time as the host writes it: $text", ({ text, ms }) => {
    expect(parseTimeout(text)).toBe(ms);
  });

  it.each(["", "5", "five", "00:05", "00:00:00", "-00:05:00", "00:05:00 h"])(
    "FUN-03 refuses a text that is not a time: %j",
    (text) => {
      expect(() => parseTimeout(text)).toThrow(/functionTimeout in host.json must be a time like "00:05:00"/);
    },
  );

  it("FUN-03 a run ends a margin before host.json's functionTimeout", async () => {
    expect(await runTimeWith('{ "version": "2.0", "functionTimeout": "00:02:00" }')).toBe(115_000);
    expect(await runTimeWith('\uFEFF{ "functionTimeout": "00:00:10" }')).toBe(9_000);
    expect(await runTimeWith('{ "FunctionTimeout": "00:02:00" }')).toBe(115_000); // the host ignores the case
  });

  it("FUN-03 the app setting that overrides host.json overrides it here", async () => {
    expect(await runTimeWith('{ "functionTimeout": "00:02:00" }', "00:01:00")).toBe(55_000);
    for (const name of ["AzureFunctionsJobHost__functionTimeout", "AZUREFUNCTIONSJOBHOST__FUNCTIONTIMEOUT"])
      expect(readAzureSettings({ [name]: "00:01:00" }).functionTimeout).toBe("00:01:00");
  });

  it("FUN-03 unlimited time means ten minutes at most, because a platform update leaves no more", async () => {
    expect(await runTimeWith('{ "functionTimeout": "-1" }')).toBe(595_000);
    expect(await runTimeWith('{ "functionTimeout": "02:00:00" }')).toBe(595_000);
  });

  it("FUN-03 without a time-out, or without a host.json, the shortest time-out of all plans is used", async () => {
    expect(await runTimeWith('{ "version": "2.0" }')).toBe(295_000);
    expect(runTimeMs({ appFolder: join(appFolder, "none"), functionTimeout: undefined })).toBe(295_000);
  });

  it("FUN-03 a host.json that cannot be parsed is refused", async () => {
    await expect(runTimeWith('{ "functionTimeout": "00:02:00" } // two minutes')).rejects.toThrow(
      /is not plain JSON/,
    );
  });
});
