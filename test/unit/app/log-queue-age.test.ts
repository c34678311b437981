import { describe, expect, it } from "vitest";
import { openJobs } from "../../../src/app/jobs.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { type LogFields, newOwnerToken, timeBudget } from "../../../src/index.js";

type Line = { readonly level: string; readonly message: string } & LogFields;

/** An app, and the log lines that the alarms of the templates read. */
async function appWithLog() {
  const lines: Line[] = [];
  const at = (level: string) => (message: string, fields: LogFields) =>
    void lines.push({ ...fields, level, message });
  const logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  const app = await openJobs(
    { database: "sqlite::memory:", logger },
    { environment: await readEnvironment({}), logger },
  );
  await app.migrate();
  return { app, lines };
}

describe("the reap function's log", () => {
  it("FUN-10 has a line per queue with the age of the oldest due message, for the alarms", async () => {
    const { app, lines } = await appWithLog();
    await app.inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "secret payload" });
    await app.reap(timeBudget(60_000));
    const queues = lines.filter(({ message }) => message === "queue");
    expect(queues).toEqual([
      { level: "info", message: "queue", queue: "inbox", oldestDueAgeMs: expect.any(Number) },
      { level: "info", message: "queue", queue: "outbox", oldestDueAgeMs: 0 },
    ]);
    expect(JSON.stringify(lines)).not.toContain("payload");
    await app.close();
  });

  it("FUN-10 a dead message is a line of its own, which another alarm counts", async () => {
    const { app, lines } = await appWithLog();
    await app.inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "{}" });
    const owner = newOwnerToken();
    await app.inbox.fail(owner, await app.inbox.claim({ owner }), "410");
    expect(lines).toContainEqual(expect.objectContaining({ level: "warn", message: "message is dead" }));
    await app.close();
  });

  it("a run with little time left does not read the age", async () => {
    const { app, lines } = await appWithLog();
    await app.reap(timeBudget(5_000));
    expect(lines).toEqual([]);
    await app.close();
  });
});
