import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseTimeout, runTimeMs } from "../../src/adapters/azure/function-timeout.js";
import { readAzureSettings } from "../../src/config/azure-settings.js";
import { readDatabaseUsers } from "../../src/config/database-users.js";

const storage = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=c2VjcmV0";

describe("settings on Azure", () => {
  it("FUN-06 without the name of a queue there is no wake-up", () => {
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

  it("FUN-10 an app has all functions but the migration unless a setting lists them; an unknown group is refused", () => {
    const groups = (text?: string) => [
      ...readAzureSettings(text === undefined ? {} : { ONCEBOX_FUNCTIONS: text }).functions,
    ];
    expect(groups()).toEqual(["webhook", "work", "service", "admin", "messaging"]);
    expect(groups("migrate")).toEqual(["migrate"]);
    expect(groups(" webhook, work")).toEqual(["webhook", "work"]);
    expect(() => groups("webhooks")).toThrow(/^ONCEBOX_FUNCTIONS must be one or more of webhook, work/);
  });

  it("MSG-02 FUN-10 the queue that wakes the dispatcher of messages has a poison queue of its own", () => {
    const queues = (env: NodeJS.ProcessEnv) => {
      const { poisonQueues, messagePoisonQueues } = readAzureSettings(env);
      return [poisonQueues, messagePoisonQueues].map((all) => all.map(({ queue }) => queue));
    };
    const env = {
      ONCEBOX_WAKE_QUEUE: "wake",
      ONCEBOX_CONSUME_QUEUE: "take",
      ONCEBOX_MESSAGE_WAKE_QUEUE: "messages",
    };
    expect(queues({ ...env, AzureWebJobsStorage: storage })).toEqual([
      ["wake-poison", "take-poison"],
      ["messages-poison"],
    ]);
    expect(queues({})).toEqual([[], []]);
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

describe("function time-outs on Azure", () => {
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
  ])("FUN-03 reads a time in the host's format: $text", ({ text, ms }) => {
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
