import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";
import { discardDead } from "../../../src/operators/bulk-operations.js";
import type { QueueContext } from "../queue/support.js";
import { deadWith } from "./groups.js";

/** Discarding and editing. */
export function discardTests({ kind, queue, ids, keyOf, unknownKey, states, database }: QueueContext): void {
  describe("discard", () => {
    it("ADD-02 deletes only dead messages, with their attempts, and records who did it", async () => {
      const made = await queue();
      const { store, held, clock, names } = made;
      const [dead, kept] = await deadWith(made, ["410 Gone", "410 Gone"]);
      const [leased] = await held(1);
      const unknown = unknownKey();
      const result = await store.discard([keyOf(dead!), leased!, unknown], { by: "alice" });
      expect(ids(result.changed)).toEqual(ids([dead!]));
      expect(ids(result.lost)).toEqual(ids([leased!, unknown]));
      expect(await store.get(keyOf(dead!))).toBeNull();
      expect(await store.attempts(keyOf(dead!))).toEqual([]);
      expect((await store.get(keyOf(leased!)))!.state).toBe(states.held);
      expect((await store.get(keyOf(kept!)))!.state).toBe(states.dead);
      const attempts = names.object(database().db.dialect.name === "postgres" ? "_attempts" : "Attempts");
      expect(await database().raw(`select * from ${attempts}`)).toHaveLength(1);
      expect(await store.operations()).toMatchObject([
        {
          ...{ action: "discard", by: "alice", at: clock(), matched: 3, done: 1, endedAt: clock() },
          filter: { keys: [keyOf(dead!)] },
        },
      ]);
    });

    it("ADD-02 replay, discard and archive by keys that change nothing leave no record", async () => {
      const made = await queue();
      const { store, held } = made;
      const [leased] = await held(1);
      for (const action of ["replay", "discard", "archive"] as const) {
        const result = await store.operators[action]([unknownKey(), leased!], { by: "alice" });
        expect(result, action).toMatchObject({ changed: [], dead: [] });
        expect(result.lost, action).toHaveLength(2);
      }
      expect(await store.operations()).toEqual([]);
    });

    it("ADD-02 a recorded call takes 1,000 messages, and refuses more before it changes any", async () => {
      const made = await queue();
      const { store } = made;
      const dead = await deadWith(made, ["410"]);
      const many = [...dead, ...Array.from({ length: 1_000 }, unknownKey)];
      for (const action of ["replay", "discard", "archive"] as const)
        await expect(store.operators[action](many, { by: "alice" }), action).rejects.toBeInstanceOf(
          ArgumentRangeError,
        );
      expect(await store.countDead()).toBe(1);
    });

    it("ADD-02 a call that fails half-way changes nothing and leaves no record", async () => {
      const made = await queue();
      const { store } = made;
      const dead = await deadWith(made, ["410", "503"]);
      const many = [...dead, ...Array.from({ length: 300 }, unknownKey), null as never]; // the last is in another batch
      await expect(store.discard(many, { by: "alice" })).rejects.toThrow();
      await expect(store.archive(many, { by: "alice" })).rejects.toThrow();
      await expect(store.operators.replay(many, { by: "alice" })).rejects.toThrow();
      expect(await store.operations()).toEqual([]);
      expect(await store.countDead()).toBe(2);
    });

    it("ADD-02 a filter that is no plain object is refused, because it must not mean every dead message", async () => {
      const made = await queue();
      const { store } = made;
      await deadWith(made, ["410"]);
      const wrong = [
        undefined,
        null,
        "",
        "mail",
        0,
        7,
        true,
        [],
        new Map([["topic", "mail"]]),
        new URLSearchParams(),
      ];
      for (const filter of wrong as readonly object[]) {
        const start = async () => store.startOperation("discard", filter, { by: "alice" });
        await expect(start, String(filter)).rejects.toBeInstanceOf(InvalidArgumentError);
        if (filter === undefined) continue; // countDead() counts all
        await expect(async () => store.countDead(filter), String(filter)).rejects.toBeInstanceOf(
          InvalidArgumentError,
        );
        const run = async () => discardDead(store, filter, { by: "alice" });
        await expect(run, String(filter)).rejects.toBeInstanceOf(InvalidArgumentError);
        const dry = async () => discardDead(store, filter, { by: "alice", dryRun: true });
        await expect(dry, `${String(filter)}, dry run`).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      expect(await store.operations()).toEqual([]);
      expect(await store.countDead()).toBe(1);
    });

    it("ADD-02 a discard or an archive without a name is refused and changes nothing", async () => {
      const made = await queue();
      const dead = await deadWith(made, ["410"]);
      for (const options of [undefined, {}, { by: "" }, { by: "a", who: "b" }]) {
        for (const action of ["discard", "archive"] as const) {
          const call = async () => made.store[action](dead, options as { by: string });
          await expect(call, JSON.stringify(options)).rejects.toBeInstanceOf(InvalidArgumentError);
        }
      }
      expect(await made.store.discard([], { by: "a" })).toEqual({ changed: [], lost: [], dead: [] });
      expect(await made.store.countDead()).toBe(1);
      expect(await made.store.operations()).toEqual([]);
    });
  });

  describe("edit and replay", () => {
    it("ADD-02 enqueues the changed message and archives the dead one, in one transaction; an inbox keeps its key as Done", async () => {
      const made = await queue();
      const { store, owner, held } = made;
      const [old] = await held(1, { topic: "paid", payload: "{", headers: { a: "b" } });
      await store.fail(owner, [old!], "not JSON");
      const key = await store.editAndReplay(keyOf(old!), { payload: "{}" }, { by: "alice" });
      const replaced = await store.get(keyOf(old!));
      if (kind === "inbox") expect(replaced).toMatchObject({ state: "Done", payload: "" });
      else expect(replaced).toBeNull();
      const [again] = await store.claim({ owner });
      expect(again).toMatchObject({ ...key, topic: "paid", payload: "{}", attempt: 0 });
      expect(again!.headers).toEqual({ a: "b", "oncebox-edited-from": Object.values(keyOf(old!)).at(-1) });
      expect(again!.messageId).not.toBe(old!.messageId);
      expect(again!.correlationId).toBe(old!.messageId);
      expect(await store.operations()).toMatchObject([
        { action: "edit", by: "alice", filter: { from: keyOf(old!), to: key }, matched: 1, done: 1 },
      ]);
    });

    it("ADD-02 changes topic and headers too, and keeps the correlation id", async () => {
      const { store, owner, held } = await queue();
      const [old] = await held(1, { topic: "payd", correlationId: "c", headers: { a: "b" } });
      await store.fail(owner, [old!], "no handler");
      await store.editAndReplay(keyOf(old!), { topic: "paid", headers: null }, { by: "alice" });
      expect(await store.claim({ owner })).toMatchObject([
        { topic: "paid", payload: old!.payload, correlationId: "c" },
      ]);
    });

    it("ADD-02 the archive has the old message with its attempts, and the new message refers to it", async () => {
      const made = await queue();
      const { store, owner, held, clock, names } = made;
      const [old] = await held(1, { payload: "{", correlationId: "c" });
      await store.abandon(owner, [old!], { delayMs: 1_000, error: "503" });
      clock.advance(1_000);
      await store.fail(owner, await store.claim({ owner }), "not JSON");
      const key = await store.editAndReplay(keyOf(old!), { payload: "{}", headers: null }, { by: "alice" });
      const table = names.object(database().db.dialect.name === "postgres" ? "_archive" : "Archive");
      const [row, ...others] = await database().raw(`select * from ${table}`);
      expect(others).toEqual([]);
      expect(row).toMatchObject({ payload: "{", last_error: "not JSON", archived_by: "alice" });
      expect(JSON.parse(row!.attempts as string)).toMatchObject([
        { attempt: 1, error: "503", worker: owner },
        { attempt: 2, error: "not JSON", worker: owner },
      ]);
      const id = String(kind === "inbox" ? row!.message_id : row!.id).toLowerCase();
      expect(await store.get(key)).toMatchObject({ headers: { "oncebox-edited-from": id } });
      // A message that is edited again refers to its predecessor.
      await store.fail(owner, await store.claim({ owner }), "no");
      const next = await store.editAndReplay(key, { payload: "[]" }, { by: "alice" });
      expect((await store.get(next))!.headers).toEqual({ "oncebox-edited-from": Object.values(key).at(-1) });
      expect(await database().raw(`select * from ${table}`)).toHaveLength(2);
    });

    it("ADD-02 changes nothing when the message is not dead, or the change cannot be stored", async () => {
      const made = await queue();
      const { store, held } = made;
      const [dead] = await deadWith(made, ["410"]);
      const [leased] = await held(1);
      const by = { by: "alice" };
      for (const key of [keyOf(leased!), unknownKey()]) {
        await expect(store.editAndReplay(key, { payload: "x" }, by)).rejects.toBeInstanceOf(
          InvalidOperationError,
        );
      }
      for (const wrong of [{}, { topic: "" }, { payload: 7 }, { headers: { a: 1 } }, { body: "x" }]) {
        const call = async () => store.editAndReplay(keyOf(dead!), wrong as object, by);
        await expect(call, JSON.stringify(wrong)).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      expect((await store.get(keyOf(dead!)))!.state).toBe(states.dead);
      expect((await store.list()).messages).toHaveLength(2);
      expect(await store.operations()).toEqual([]);
    });
  });
}
