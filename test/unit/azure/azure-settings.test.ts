import { describe, expect, it } from "vitest";
import { readAzureSettings } from "../../../src/config/azure-settings.js";
import { readDatabaseUsers } from "../../../src/config/database-users.js";

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

  it("FUN-10 the queues may be in an account of their own, for the sender and for the trigger", () => {
    const env = {
      AzureWebJobsStorage__accountName: "host",
      ONCEBOX_WAKE_QUEUE: "oncebox-wake",
      ONCEBOX_QUEUES__queueServiceUri: "https://queues.queue.core.windows.net",
      ONCEBOX_QUEUES__clientId: "id",
    };
    const { wakeUp, queueConnection } = readAzureSettings(env);
    expect(queueConnection).toBe("ONCEBOX_QUEUES");
    expect(wakeUp?.storage).toEqual({ queueServiceUrl: env.ONCEBOX_QUEUES__queueServiceUri, clientId: "id" });
    expect(readAzureSettings({}).queueConnection).toBe("AzureWebJobsStorage");
  });

  it("FUN-10 an app has all functions but the migration unless it is told which; an unknown group is refused", () => {
    const groups = (text?: string) => [
      ...readAzureSettings(text === undefined ? {} : { ONCEBOX_FUNCTIONS: text }).functions,
    ];
    expect(groups()).toEqual(["webhook", "work", "service", "admin"]);
    expect(groups("migrate")).toEqual(["migrate"]);
    expect(groups(" webhook, work")).toEqual(["webhook", "work"]);
    expect(() => groups("webhooks")).toThrow(/^ONCEBOX_FUNCTIONS must be one or more of webhook, work/);
  });

  it("FUN-10 database users with a name that could end a statement, or an id that is none, are refused without being quoted", () => {
    const user = {
      name: "id-orders-prod-work",
      role: "oncebox_functions",
      clientId: "00000000-0000-4000-8000-000000000001",
      objectId: "00000000-0000-4000-8000-000000000002",
    };
    const read = (value: unknown) => readDatabaseUsers({ ONCEBOX_DATABASE_USERS: JSON.stringify(value) });
    expect(read([user]).users).toEqual([user]);
    expect(readDatabaseUsers({})).toEqual({ users: [], catalogueUrl: undefined });
    for (const wrong of [
      { name: "x]; drop table y" },
      { role: "db_owner" },
      { clientId: "0x1" },
      { more: 1 },
    ]) {
      expect(() => read([{ ...user, ...wrong }])).toThrow(/^ONCEBOX_DATABASE_USERS: (?!.*drop table)/);
    }
    expect(() => readDatabaseUsers({ ONCEBOX_DATABASE_USERS: "[secret" })).toThrow(
      /^(?!.*secret).*not valid JSON/,
    );
  });
});
