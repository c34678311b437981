import { expect, it } from "vitest";
import { operatorsOf } from "../../src/admin/index.js";
import { createDispatcher, createInbox, migrate, timeBudget } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { type LogLine, recordingLogger } from "../contract/support/recording-logger.js";

it("ADD-12 a process counts 1,000 unhandled topics by themselves, and further ones together by their source", async () => {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const inbox = createInbox(db, { logger: false });
  const logs: LogLine[] = [];
  const dispatcher = createDispatcher({
    store: inbox,
    handlers: {},
    onUnhandled: "ack",
    logger: recordingLogger(logs),
  });
  const dispatched = async (source: string, types: readonly number[]) => {
    await inbox.enqueue(
      types.map((type) => ({ source, messageId: `${type}`, topic: `${source}.${type}`, payload: "" })),
    );
    await dispatcher.run(inbox, timeBudget(60_000));
  };
  await dispatched(
    "shop",
    Array.from({ length: 1_000 }, (_, type) => type),
  );
  await dispatched("shop", [1_000, 1_001]);
  const longest = "x".repeat(254);
  await inbox.receive({ source: longest, messageId: "1", topic: "another", payload: "" });
  await dispatched("crm", [1]);

  expect(logs.filter(({ message }) => message.startsWith("no handler for this topic"))).toHaveLength(1_000);
  const listed = await operatorsOf(inbox).unhandled({ limit: 1_000 });
  const together = listed.filter(({ topic }) => topic.endsWith("*"));
  expect(Object.fromEntries(together.map(({ topic, messages }) => [topic, messages]))).toEqual({
    "shop.*": 2,
    "crm.*": 1,
    "*": 1,
  });
  expect(listed.some(({ topic }) => topic === "shop.1001" || topic === "another")).toBe(false);
  await db.close();
});
