import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createInbox, createOutbox, migrate, newOwnerToken, type OwnerToken } from "../../src/index.js";
import type { ContractHarness, TestDatabase } from "../contract/harness.js";
import {
  type AnyMessage,
  type OperatedStore,
  operatedInbox,
  operatedOutbox,
} from "../contract/queue/support.js";
import { policy, QueueModel, topicOf, topics } from "./queue-model.js";

/** The real store beside the model. A message's payload is its key. */
interface Real {
  readonly store: OperatedStore;
  enqueue(
    key: string,
    partitionKey: string | null,
    dueAt: Date | null,
    expiresAt: Date | null,
  ): Promise<unknown>;
  setClock(ms: number): void;
  /** Only for an inbox, whose messages have a key of the sender. */
  readonly byKey:
    | {
        mark(key: string, status: "done" | "dead"): Promise<unknown>;
        redeliver(key: string, dueAt: Date | null, expiresAt: Date | null): Promise<unknown>;
      }
    | undefined;
  /** The claimed messages, as they were claimed. */
  readonly batches: { readonly owner: OwnerToken; readonly messages: readonly AnyMessage[] }[];
}

type Settling = "ack" | "abandon" | "fail" | "release" | "renew";

type Step =
  | {
      readonly kind: "enqueue";
      readonly count: number;
      readonly partitionKey: string | null;
      readonly dueInMs: number;
      readonly expiresInMs: number | null;
    }
  | { readonly kind: "claim"; readonly owner: number; readonly leaseMs: number; readonly batchSize: number }
  | {
      readonly kind: Settling;
      readonly owner: number;
      readonly which: readonly number[];
    }
  | {
      readonly kind: "settle batch";
      readonly how: Settling;
      /** Counted from the last one. */
      readonly batch: number;
      /** The last two at once, when they are of one owner. */
      readonly withNext: boolean;
      readonly leaveOut: number | null;
    }
  | { readonly kind: "mark"; readonly which: number; readonly status: "done" | "dead" }
  | {
      readonly kind: "redeliver";
      readonly which: number;
      readonly dueInMs: number;
      readonly expiresInMs: number | null;
    }
  | { readonly kind: "purge"; readonly retentionMs: number; readonly batchSize: number }
  | { readonly kind: "replay"; readonly which: readonly number[] }
  | { readonly kind: "reap"; readonly batchSize: number }
  | { readonly kind: "pause" | "resume"; readonly target: string }
  | { readonly kind: "advance"; readonly ms: number };

const owners: readonly OwnerToken[] = [newOwnerToken(), newOwnerToken(), newOwnerToken()];
const owner = fc.nat({ max: owners.length - 1 });
const which = fc.array(fc.nat({ max: 30 }), { maxLength: 12 });
const policies = fc.constantFrom("skip" as const, "block" as const);
const durations = fc.constantFrom(1, 999, 1_000, 2_000, 5_000, 30_000, 62_000);

/** A crash is a lease that a jump of the clock ends; the store does not know of it. */
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("enqueue" as const),
      count: fc.integer({ min: 1, max: 4 }),
      partitionKey: fc.constantFrom(null, null, "a", "b"),
      dueInMs: fc.constantFrom(0, 0, 0, 1_000, 10_000),
      expiresInMs: fc.constantFrom(null, null, null, 5_000),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("claim" as const),
      owner,
      leaseMs: fc.constantFrom(1_000, 5_000, 30_000),
      batchSize: fc.integer({ min: 1, max: 5 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom("ack", "abandon", "fail", "release", "renew"),
      owner,
      which,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("settle batch" as const),
      how: fc.constantFrom("ack", "ack", "ack", "abandon", "fail", "release", "renew"),
      batch: fc.nat({ max: 3 }),
      withNext: fc.boolean(),
      leaveOut: fc.constantFrom(null, null, 0, 1),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("mark" as const),
      which: fc.nat({ max: 30 }),
      status: fc.constantFrom("done", "dead"),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("redeliver" as const),
      which: fc.nat({ max: 30 }),
      dueInMs: fc.constantFrom(0, 0, 1_000),
      expiresInMs: fc.constantFrom(null, null, 5_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("purge" as const),
      retentionMs: fc.constantFrom(1, 1_500, 30_000),
      batchSize: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("replay" as const), which }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("reap" as const), batchSize: fc.integer({ min: 1, max: 3 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("pause", "resume", "resume"),
      target: fc.constantFrom("all", ...topics),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("advance" as const), ms: durations }) },
);

async function play(model: QueueModel, real: Real, one: Step): Promise<void> {
  const { store } = real;
  const keysAt = (indexes: readonly number[]) =>
    [...new Set(indexes)].flatMap((index) => model.messages[index] ?? []).map((message) => message.key);
  const messagesOf = async (keys: readonly string[]) =>
    (await store.list({ limit: 1000 })).messages.filter((message) => keys.includes(message.payload));
  const payloads = (messages: readonly unknown[]) =>
    messages.map((message) => (message as { payload: string }).payload);

  const timesOf = (times: { readonly dueInMs: number; readonly expiresInMs: number | null }) => {
    const dueAt = times.dueInMs === 0 ? null : model.now + times.dueInMs;
    const expiresAt = times.expiresInMs === null ? null : model.now + times.expiresInMs;
    return { dueAt, expiresAt };
  };
  const dateOf = (ms: number | null) => (ms === null ? null : new Date(ms));
  const settle = async (how: Settling, token: OwnerToken, messages: readonly AnyMessage[]) => {
    const keys = payloads(messages);
    const settled =
      how === "fail"
        ? await store.fail(token, messages, "failed")
        : how === "renew"
          ? await store.renew(token, messages, 5_000)
          : await store[how](token, messages);
    const expected = how === "renew" ? model.renew(token, keys, 5_000) : model[how](token, keys);
    expect(payloads(settled.changed).sort()).toEqual([...expected].sort());
    expect(settled.lost).toHaveLength(keys.length - expected.length);
  };

  switch (one.kind) {
    case "enqueue":
      for (let i = 0; i < one.count; i++) {
        const key = `m${model.enqueued}`;
        const { dueAt, expiresAt } = timesOf(one);
        await real.enqueue(key, one.partitionKey, dateOf(dueAt), dateOf(expiresAt));
        model.enqueue(key, one.partitionKey, dueAt, expiresAt);
      }
      return;
    case "claim": {
      const claimed = await store.claim({
        owner: owners[one.owner]!,
        leaseMs: one.leaseMs,
        batchSize: one.batchSize,
      });
      expect(payloads(claimed)).toEqual(model.claim(owners[one.owner]!, one.leaseMs, one.batchSize));
      if (claimed.length > 0) real.batches.push({ owner: owners[one.owner]!, messages: claimed });
      return;
    }
    case "settle batch": {
      const batch = real.batches.at(-1 - one.batch);
      const next = real.batches.at(-2 - one.batch);
      if (batch === undefined) return;
      const both = one.withNext && next?.owner === batch.owner ? next.messages : [];
      const whole = new Map([...batch.messages, ...both].map((message) => [message.payload, message]));
      await settle(
        one.how,
        batch.owner,
        [...whole.values()].filter((_, index) => index !== one.leaveOut),
      );
      return;
    }
    case "mark": {
      const [key] = keysAt([one.which]);
      if (key === undefined || real.byKey === undefined) return;
      const changed = await real.byKey.mark(key, one.status);
      const expected = model.mark(key, one.status);
      if (one.status === "done") expect(changed).toBe(expected);
      return;
    }
    case "redeliver": {
      const [key] = keysAt([one.which]);
      if (key === undefined || real.byKey === undefined) return;
      const { dueAt, expiresAt } = timesOf(one);
      const outcome = await real.byKey.redeliver(key, dateOf(dueAt), dateOf(expiresAt));
      expect(outcome).toBe(model.redeliver(key, dueAt, expiresAt));
      return;
    }
    case "purge": {
      const { retentionMs, batchSize } = one;
      const { purged } = await store.purgeDone({ retentionMs, batchSize });
      expect(purged).toBe(model.purge(retentionMs));
      return;
    }
    case "replay": {
      const keys = keysAt(one.which);
      const { changed } = await store.replay(await messagesOf(keys));
      expect(payloads(changed).sort()).toEqual(model.replay(keys).sort());
      return;
    }
    case "reap": {
      const { reaped, dead, more } = await store.reapExpired({ batchSize: one.batchSize });
      expect({ reaped, dead, more }).toEqual({ ...model.reap(), more: false });
      return;
    }
    case "pause":
      await store.pause(targetOf(one.target), { by: "the model" });
      model.pause(one.target);
      return;
    case "resume": {
      const { wasPaused } = await store.resume(targetOf(one.target), { by: "the model" });
      expect(wasPaused).toBe(model.resume(one.target));
      return;
    }
    case "advance":
      model.now += one.ms;
      real.setClock(model.now);
      return;
    default:
      await settle(one.kind, owners[one.owner]!, await messagesOf(keysAt(one.which)));
  }
}

const targetOf = (target: string) => (target === "all" ? "all" : { topic: target });

/** Everything the store knows, beside everything the model knows. */
async function compare(model: QueueModel, { store }: Real): Promise<void> {
  const { messages } = await store.list({ limit: 1000 });
  const stateOf = (state: string, lockedUntil: Date | null) =>
    state === "Done"
      ? "done"
      : state === "Dead" || state === "Failed"
        ? "dead"
        : lockedUntil === null
          ? "waiting"
          : "leased";
  expect(
    messages.map((m) => ({
      key: m.payload,
      state: stateOf(m.state, m.lockedUntil),
      attempt: m.attempt,
      owner: m.owner,
      lockedUntil: m.lockedUntil?.getTime() ?? null,
      visibleAt: stateOf(m.state, m.lockedUntil) === "waiting" ? m.nextAttemptAt.getTime() : null,
    })),
  ).toEqual(
    model.messages.map((m) => {
      const state =
        m.status === "done" || m.status === "dead" ? m.status : m.lockedUntil === null ? "waiting" : "leased";
      return {
        key: m.key,
        state,
        attempt: m.attempt,
        owner: m.owner,
        lockedUntil: m.lockedUntil,
        visibleAt: state === "waiting" ? m.visibleAt : null,
      };
    }),
  );
}

export function queueProperty(harness: ContractHarness, runs: number): void {
  describe(`the queue and its model on ${harness.name}`, () => {
    let database: TestDatabase;
    let tables = 0;

    beforeAll(async () => {
      database = await harness.open();
    });
    afterAll(() => database.close());

    async function fresh(
      kind: "inbox" | "outbox",
      deadInPartition: "skip" | "block",
      model: QueueModel,
    ): Promise<Real> {
      const { db } = database;
      const schema = database.schema === undefined ? {} : { schema: database.schema };
      const table = `${kind}Model${++tables}`;
      let nowMs = model.now;
      const options = { ...schema, table, clock: () => new Date(nowMs), retry: policy, deadInPartition };
      await migrate(db, { ...schema, inbox: false, outbox: false, [kind]: table });
      const inbox = createInbox(db, options);
      const outbox = createOutbox(db, options);
      return {
        store: kind === "inbox" ? operatedInbox(inbox) : operatedOutbox(outbox),
        setClock: (ms) => {
          nowMs = ms;
        },
        enqueue: (key, partitionKey, dueAt, expiresAt) =>
          kind === "inbox"
            ? inbox.receive({
                source: "s",
                messageId: key,
                topic: topicOf(key),
                payload: key,
                partitionKey,
                dueAt,
                expiresAt,
              })
            : outbox.enqueue({ topic: topicOf(key), payload: key, partitionKey, dueAt, expiresAt }),
        byKey:
          kind === "outbox"
            ? undefined
            : {
                mark: (messageId, status) =>
                  status === "done"
                    ? inbox.markProcessed({ source: "s", messageId })
                    : inbox.markDead({ source: "s", messageId }, "by hand"),
                redeliver: (messageId, dueAt, expiresAt) =>
                  inbox.receive({
                    source: "s",
                    messageId,
                    topic: topicOf(messageId),
                    payload: messageId,
                    dueAt,
                    expiresAt,
                  }),
              },
        batches: [],
      };
    }

    it.each(["inbox", "outbox"] as const)(
      "IBX-106 OBX-084 ADD-01 random steps leave the %s and the model in the same state: no message lost, none held by two owners, exact attempts",
      async (kind) => {
        await fc.assert(
          fc.asyncProperty(
            policies,
            fc.array(step, { minLength: 5, maxLength: 40 }),
            async (deadInPartition, steps) => {
              const model = new QueueModel(deadInPartition);
              const real = await fresh(kind, deadInPartition, model);
              for (const one of steps) {
                await play(model, real, one);
                await compare(model, real);
              }
            },
          ),
          { numRuns: runs },
        );
      },
      300_000,
    );
  });
}
