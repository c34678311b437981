import { describe, expect, it } from "vitest";
import { readAzureSettings } from "../../../src/config/azure-settings.js";

const storage = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=c2VjcmV0";

describe("settings on Azure", () => {
  it("FUN-06 without the name of a queue there is no wake-up, whatever storage there is", () => {
    expect(readAzureSettings({ AzureWebJobsStorage: storage }).wakeUp).toBeUndefined();
    expect(
      readAzureSettings({ ONCEBOX_WAKE_QUEUE: " ", AzureWebJobsStorage: storage }).wakeUp,
    ).toBeUndefined();
  });

  it.each([
    { case: "a key", env: { AzureWebJobsStorage: storage }, expected: { connectionString: storage } },
    {
      case: "the system's identity",
      env: { AzureWebJobsStorage__queueServiceUri: "https://a.queue.core.windows.net" },
      expected: { queueServiceUrl: "https://a.queue.core.windows.net", clientId: undefined },
    },
    {
      case: "a user-assigned identity",
      env: { AzureWebJobsStorage__accountName: "a", AzureWebJobsStorage__clientId: "id" },
      expected: { queueServiceUrl: "https://a.queue.core.windows.net", clientId: "id" },
    },
  ])("FUN-06 reads the same storage settings as the trigger: $case", ({ env, expected }) => {
    const { wakeUp } = readAzureSettings({ ONCEBOX_WAKE_QUEUE: "oncebox-wake", ...env });
    expect(wakeUp).toEqual({ queue: "oncebox-wake", storage: expected });
  });

  it.each(["ab", "Upper", "with_underscore", "two--hyphens", "-first", "last-", "x".repeat(64)])(
    "FUN-06 refuses a name that no queue can have: %s",
    (name) => {
      const env = { ONCEBOX_WAKE_QUEUE: name, AzureWebJobsStorage: storage };
      expect(() => readAzureSettings(env)).toThrow(/ONCEBOX_WAKE_QUEUE must be the name of a queue/);
    },
  );

  it("FUN-06 a queue without a storage account is refused, and the error quotes no value", () => {
    const read = (env: NodeJS.ProcessEnv) => () =>
      readAzureSettings({ ONCEBOX_WAKE_QUEUE: "oncebox-wake", ...env });
    expect(read({})).toThrow(/needs a storage account/);
    expect(read({ AzureWebJobsStorage__queueServiceUri: "not a url" })).toThrow(/^(?!.*not a url).*account/);
  });

  it("FUN-03 FUN-04 schedules have defaults, and are settings", () => {
    const { schedules } = readAzureSettings({ ONCEBOX_CLEANUP_SCHEDULE: "0 0 3 * * *" });
    expect(schedules).toEqual({
      dispatch: "5 * * * * *",
      reap: "35 * * * * *",
      cleanup: "0 0 3 * * *",
      recover: "20 7/15 * * * *",
    });
  });
});
