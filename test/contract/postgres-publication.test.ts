import { describe, expect, it } from "vitest";
import { createInbox, migrate, newOwnerToken } from "../../src/index.js";
import { ownDatabase } from "../infra/own-database.js";

describe("PostgreSQL with a publication of all tables, as logical replication and change capture make it", () => {
  it("ADD-01 messages with a partition key can be enqueued, claimed and acknowledged", async () => {
    const { db, run, drop } = await ownDatabase();
    try {
      await migrate(db, { outbox: false });
      await run("create publication everything for all tables");
      const inbox = createInbox(db);
      const owner = newOwnerToken();
      const message = (messageId: string) => ({
        source: "s",
        messageId,
        topic: "t",
        payload: "",
        partitionKey: "k",
      });
      await inbox.enqueue([message("1"), message("2")]);
      const handled: string[] = [];
      for (
        let claimed = await inbox.claim({ owner });
        claimed.length > 0;
        claimed = await inbox.claim({ owner })
      ) {
        handled.push(...claimed.map(({ messageId }) => messageId));
        await inbox.ack(owner, claimed);
      }
      expect(handled).toEqual(["1", "2"]);
    } finally {
      await drop();
    }
  });
});
