import { describe, expect, it } from "vitest";
import { operatorsOf } from "../../src/admin/index.js";
import { createInbox, createOutbox, InvalidArgumentError, migrate, newOwnerToken } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

describe("operatorsOf", () => {
  const by = { by: "alice" };

  it("ADD-02 works on a queue and on a copy of it, and returns the same calls for the same queue", async () => {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const outbox = createOutbox(db);
    expect(operatorsOf(outbox)).toBe(operatorsOf(outbox));
    await operatorsOf({ ...outbox }).pause("all", by);
    expect(await operatorsOf(outbox).controls()).toMatchObject([{ scope: "queue", paused: true }]);
    await outbox.enqueue({ topic: "t", payload: "" });
    expect(await outbox.claim({ owner: newOwnerToken() })).toEqual([]);
    await db.close();
  });

  it("ADD-02 has the options of its queue: table, clock and logger", async () => {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db, { inbox: "Others", outbox: false });
    const at = new Date("2030-01-01T00:00:00Z");
    const logged: string[] = [];
    const log = (line: string) => void logged.push(line);
    const logger = { debug: () => {}, info: log, warn: log, error: log };
    const inbox = createInbox(db, { table: "Others", clock: () => at, logger });
    expect(await operatorsOf(inbox).pause({ source: "stripe" }, by)).toMatchObject({ name: "stripe", at });
    expect(logged).toEqual(["pause"]);
    await db.close();
  });

  it("ADD-02 a queue has no calls of operators, and nothing shows the parts that it is made of", async () => {
    const inbox = createInbox(openSqlite({ file: ":memory:" }));
    expect(Object.keys(inbox).filter((name) => name in operatorsOf(inbox))).toEqual(["replay"]);
    expect(JSON.parse(JSON.stringify(inbox))).toEqual({ id: inbox.id, queue: "inbox" });
  });

  it("ADD-02 refuses what is neither an inbox nor an outbox", () => {
    for (const wrong of [undefined, null, {}, { claim: () => [] }])
      expect(() => operatorsOf(wrong as never)).toThrow(InvalidArgumentError);
  });
});
