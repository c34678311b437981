import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ConsumeOnceOptions, consumeOnce, consumerKey } from "../../../src/inbox-store/consume-once.js";
import {
  InboxKeyBusyError,
  type InboxStore,
  type LeasingInboxStore,
} from "../../../src/inbox-store/inbox-store.js";
import { WorkTimedOutError } from "../../../src/inbox-store/with-lease.js";
import { memoryStore } from "../../support/inbox-service/memory-store.js";

const consumer: ConsumeOnceOptions = { bus: "shop", group: "billing", alias: "order.placed" };

describe("consumeOnce", () => {
  let store: LeasingInboxStore;
  beforeEach(async () => {
    store = await memoryStore();
  });
  afterEach(() => store.close());

  const keyOf = async (message: object, options: Partial<ConsumeOnceOptions> = {}): Promise<string> => {
    let seen = "";
    await consumeOnce(store, { ...consumer, ...options }, (_, { key }) => {
      seen = key;
    })(message);
    return seen;
  };

  it("SVC-02 the key is bus, group, alias and the message's id", async () => {
    expect(await keyOf({ messageId: "42" })).toBe("shop:billing:order.placed:42");
    expect(await keyOf({ messageId: "a:b" })).toBe("shop:billing:order.placed:a:b");
  });

  it.each([
    ["a text", { "idempotency-key": "k1" }],
    ["any case of its name", { "Idempotency-Key": "k1" }],
    ["the name of the service's contract", { IdempotencyKey: "k1" }],
    ["the first of both names", { IdempotencyKey: "k2", "idempotency-key": "k1" }],
    ["the second name where the first is empty", { "idempotency-key": "", IdempotencyKey: "k1" }],
    ["bytes", { "idempotency-key": Buffer.from("k1") }],
    ["the first of several", { "idempotency-key": ["k1", "k2"] }],
  ])("SVC-02 the idempotency key counts before the message's id: %s", async (_, headers) => {
    expect(await keyOf({ messageId: "42", headers })).toBe("shop:billing:order.placed:k1");
  });

  it("SVC-02 a header without a value, or of another name, does not count", async () => {
    expect(await keyOf({ messageId: "1", headers: { "idempotency-key": "" } })).toMatch(/:1$/);
    expect(await keyOf({ messageId: "2", headers: { "x-key": "k" } })).toMatch(/:2$/);
    expect(
      await keyOf({ messageId: "3", headers: { "X-Key": "k" } }, { idempotencyHeader: "x-key" }),
    ).toMatch(/:k$/);
    expect(
      await keyOf({ messageId: "4", headers: { IdempotencyKey: "k" } }, { idempotencyHeader: "x-key" }),
    ).toMatch(/:4$/);
  });

  it("SVC-02 an id that no store takes is replaced by its hash", async () => {
    for (const messageId of ["x".repeat(300), "a\nb", "ends with a space "]) {
      const hash = createHash("sha256").update(messageId).digest("hex");
      expect(await keyOf({ messageId })).toBe(`shop:billing:order.placed:sha256:${hash}`);
    }
  });

  it("SVC-02 two ids that are no Unicode have two keys, as bytes and as texts", async () => {
    const ids = [Buffer.from([0, 0x80]), Buffer.from([0, 0x81]), "a\ud800", "a\ud801", "a\ufffd"];
    const inHeader = ids.map((id) => consumerKey(consumer, { headers: { k: id } }, ["k"]));
    expect(new Set(inHeader).size).toBe(ids.length);
    expect(ids.map((messageId) => consumerKey(consumer, { messageId }, ["k"]))).toEqual(inHeader);
    expect(inHeader[0]).toBe("shop:billing:order.placed:hex:0080");
  });

  it("SVC-02 a message's id may be a number or bytes, as some brokers have it", async () => {
    expect(await keyOf({ messageId: 0 })).toBe("shop:billing:order.placed:0");
    expect(await keyOf({ messageId: Buffer.from("42") })).toBe("shop:billing:order.placed:42");
  });

  it("SVC-02 a message without any id is refused", async () => {
    await expect(keyOf({})).rejects.toThrow(
      /neither a header "idempotency-key" or "IdempotencyKey" nor a messageId/,
    );
  });

  it("SVC-02 names that would make two consumers share keys are refused, all in one error", () => {
    const bad = { bus: "a:b", group: "", alias: "x".repeat(200) };
    expect(() => consumeOnce(store, bad, () => {})).toThrow(/bus .*":".*; group .*; .* leave room/);
    expect(() => consumeOnce(store, { ...consumer, ttl: 1 } as never, () => {})).toThrow(
      /unknown option ttl/,
    );
    expect(() => consumeOnce(store, { ...consumer, leaseMs: 0, timeoutMs: Infinity }, () => {})).toThrow(
      /leaseMs must be .*; timeoutMs must be .*, not Infinity/,
    );
  });

  for (const kind of ["a store with leases", "a plain store"] as const) {
    describe(kind, () => {
      const used = (): InboxStore =>
        kind === "a plain store"
          ? { isProcessed: store.isProcessed, markProcessed: store.markProcessed }
          : store;

      it("SVC-02 success marks the key, and the next delivery is skipped", async () => {
        const handled: string[] = [];
        const consume = consumeOnce(used(), consumer, ({ messageId }) => handled.push(String(messageId)));
        expect(await consume({ messageId: "42" })).toBe("handled");
        expect(await consume({ messageId: "42" })).toBe("skipped");
        expect(await consume({ messageId: "43" })).toBe("handled");
        expect(handled).toEqual(["42", "43"]);
        expect(await store.isProcessed("shop:billing:order.placed:42")).toBe(true);
      });

      it("SVC-02 failure does not mark the key, and the next delivery is handled", async () => {
        const failure = new Error("the mail server is away");
        let failures = 1;
        const consume = consumeOnce(used(), consumer, () => {
          if (failures-- > 0) throw failure;
        });
        await expect(consume({ messageId: "42" })).rejects.toBe(failure);
        expect(await store.isProcessed("shop:billing:order.placed:42")).toBe(false);
        expect(await consume({ messageId: "42" })).toBe("handled");
      });

      it("SVC-02 a handler that hangs is given up after its time limit, and the next delivery is handled", async () => {
        const reasons: unknown[] = [];
        let hangs = 1;
        const limits = { ...consumer, leaseMs: 500, timeoutMs: 10 };
        const consume = consumeOnce(used(), limits, (_, { signal }) => {
          signal.addEventListener("abort", () => reasons.push(signal.reason));
          return hangs-- > 0 ? new Promise(() => {}) : undefined;
        });
        const error = await consume({ messageId: "42" }).catch((one) => one);
        expect(error).toBeInstanceOf(WorkTimedOutError);
        expect(reasons).toEqual([error]);
        expect(await consume({ messageId: "42" })).toBe("handled");
      });
    });
  }

  it("SVC-02 of ten deliveries at once exactly one is handled; the others are refused, so that the broker delivers again", async () => {
    let handled = 0;
    const consume = consumeOnce(store, consumer, async () => {
      handled++;
      await new Promise(setImmediate);
    });
    const ends = await Promise.allSettled(Array.from({ length: 10 }, () => consume({ messageId: "42" })));
    expect(handled).toBe(1);
    const refused = ends.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    for (const { reason } of refused) expect(reason).toBeInstanceOf(InboxKeyBusyError);
    expect(await consume({ messageId: "42" })).toBe("skipped");
  });

  it("SVC-02 the error of a busy key has a code, the key and the end of the lease, and its text has no key", async () => {
    const key = "shop:billing:order.placed:42";
    await store.tryBegin(key);
    const error = await consumeOnce(store, consumer, () => {})({ messageId: "42" }).catch((one) => one);
    expect(error).toMatchObject({ code: "ONCEBOX_INBOX_KEY_BUSY", key, expiresAt: expect.any(Date) });
    expect(error.message).not.toContain(key);
  });
});
