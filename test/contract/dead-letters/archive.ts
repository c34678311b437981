import { describe, expect, it } from "vitest";
import { archiveDead } from "../../../src/operators/bulk-operations.js";
import type { SqlRow } from "../../../src/sql/driver.js";
import type { QueueContext, TestQueue } from "../queue/support.js";
import { deadWith } from "./groups.js";

/** Moving dead messages into the archive. */
export function archiveTests({ kind, queue, ids, keyOf, unknownKey, states, database }: QueueContext): void {
  const archived = ({ names }: TestQueue): Promise<readonly SqlRow[]> => {
    const table = names.object(database().db.dialect.name === "postgres" ? "_archive" : "Archive");
    return database().raw(`select * from ${table} order by seq`);
  };

  describe("archive", () => {
    it("ADD-02 keeps the content, the headers, the error and the attempts, and records who did it", async () => {
      const made = await queue();
      const { store, owner, held, clock } = made;
      const [dead] = await held(1, { headers: { a: "b" }, correlationId: "c", payload: "content" });
      await store.abandon(owner, [dead!], { delayMs: 1_000, error: "503" });
      clock.advance(1_000);
      await store.fail(owner, await store.claim({ owner }), "410 Gone");
      const [leased] = await held(1);
      const unknown = unknownKey();
      clock.advance(1_000);
      const result = await store.archive([keyOf(dead!), leased!, unknown], { by: "alice" });
      expect(ids(result.changed)).toEqual(ids([dead!]));
      expect(ids(result.lost)).toEqual(ids([leased!, unknown]));
      const [row, ...others] = await archived(made);
      expect(others).toEqual([]);
      expect(row).toMatchObject({
        topic: "test",
        payload: "content",
        headers: '{"a":"b"}',
        correlation_id: "c",
        last_error: "410 Gone",
        archived_by: "alice",
      });
      const attempts = JSON.parse(row!.attempts as string) as { endedAt: number }[];
      expect(attempts).toMatchObject([
        { attempt: 1, error: "503", worker: owner },
        { attempt: 2, error: "410 Gone", worker: owner },
      ]);
      expect(attempts.map(({ endedAt }) => endedAt)).toEqual([
        clock().getTime() - 2_000,
        clock().getTime() - 1_000,
      ]);
      expect((await store.get(keyOf(leased!)))!.state).toBe(states.held);
      expect(await store.countDead()).toBe(0);
      expect(await store.attempts(keyOf(dead!))).toEqual([]);
      expect(await store.operations()).toMatchObject([
        {
          ...{ action: "archive", by: "alice", at: clock(), matched: 3, done: 1, endedAt: clock() },
          filter: { keys: [keyOf(dead!)] },
        },
      ]);
      expect(await store.archive([keyOf(dead!)], { by: "alice" })).toMatchObject({ changed: [] });
      expect(await archived(made)).toHaveLength(1);
    });

    it("ADD-02 an inbox keeps the key as Done without content; an outbox keeps nothing of the message", async () => {
      const made = await queue();
      const { store, owner } = made;
      const [dead] = await deadWith(made, ["410"]);
      await store.archive([dead!], { by: "alice" });
      const left = await store.get(keyOf(dead!));
      if (kind === "inbox") expect(left).toMatchObject({ state: "Done", payload: "", headers: null });
      else expect(left).toBeNull();
      expect(await store.claim({ owner })).toEqual([]);
      expect(await store.replay([keyOf(dead!)])).toMatchObject({ changed: [] });
      made.clock.advance(31 * 86_400_000);
      expect(await store.purgeDone()).toMatchObject({ purged: kind === "inbox" ? 1 : 0 });
      expect(await archived(made)).toHaveLength(1);
    });

    it("ADD-02 archives by filter, batch by batch, each message once", async () => {
      const made = await queue();
      const { store } = made;
      await deadWith(made, ["410", "410", "410", "503"]);
      const { id } = await store.startOperation("archive", { error: "410" }, { by: "alice" });
      expect(await store.continueOperation(id, { batchSize: 2 })).toMatchObject({ done: 2, endedAt: null });
      const result = await archiveDead(store, {}, { by: "bob", resume: id });
      expect(result).toMatchObject({ matched: 3, done: 3, operation: { action: "archive", by: "alice" } });
      // the last one by who resumed it
      expect((await archived(made)).map((row) => [row.last_error, row.archived_by])).toEqual([
        ["410", "alice"],
        ["410", "alice"],
        ["410", "bob"],
      ]);
      expect(await store.countDead()).toBe(1);
    });
  });
}
