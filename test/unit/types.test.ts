import { describe, expect, it } from "vitest";
import {
  createDispatcher,
  createInbox,
  createWorker,
  type InboxMessage,
  migrate,
  timeBudget,
} from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

/** That these compile without a type argument is what they prove; that they run is a bonus. */
describe("types a user does not have to write", () => {
  it("handlers that ask for nothing special serve an inbox, by dispatcher and by worker", async () => {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const inbox = createInbox(db);
    const topics: string[] = [];
    const dispatcher = createDispatcher({ handlers: { t: (message) => void topics.push(message.topic) } });
    await inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" });
    expect(await dispatcher.run(inbox, timeBudget(60_000))).toMatchObject({ acked: 1 });
    const worker = createWorker({ dispatcher, store: inbox });
    await worker.stop();
    const special = createDispatcher({
      handlers: { t: (message: InboxMessage) => void topics.push(message.source) },
    });
    await createWorker({ dispatcher: special, store: inbox }).stop();
    expect(topics).toEqual(["t"]);
    await db.close();
  });
});
