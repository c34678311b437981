import { describe, expect, it } from "vitest";
import { microBatch, notSent, sent } from "../../../src/publishers/micro-batch.js";

const { signal } = new AbortController();

describe("micro-batches", () => {
  it("MID-09 calls of one tick share requests within the limits, and each is settled by itself", async () => {
    const requests: number[][] = [];
    const send = microBatch<number>({
      maxItems: 10,
      maxBytes: 1_000,
      bytesOf: () => 1,
      send: async (items) => {
        requests.push([...items]);
        return items.map((item) => (item % 2 === 0 ? sent : notSent(new Error(`odd ${item}`))));
      },
    });
    const ends = await Promise.allSettled(Array.from({ length: 23 }, (_, index) => send(index, signal)));
    expect(requests.map((request) => request.length)).toEqual([10, 10, 3]);
    expect(ends.map((end) => end.status === "fulfilled")).toEqual(
      Array.from({ length: 23 }, (_, index) => index % 2 === 0),
    );
    expect((ends[5] as PromiseRejectedResult).reason).toMatchObject({ message: "odd 5" });
    await send(100, signal);
    expect(requests).toHaveLength(4);
  });

  it("MID-09 no request is larger than the limit, and a single larger message is sent by itself", async () => {
    const requests: number[][] = [];
    const send = microBatch<number>({
      maxItems: 10,
      maxBytes: 100,
      bytesOf: (item) => item,
      send: async (items) => {
        requests.push([...items]);
        return items.map(() => sent);
      },
    });
    await Promise.all([60, 30, 20, 500, 10].map((item) => send(item, signal)));
    expect(requests).toEqual([[60, 30], [20], [500], [10]]);
  });

  it("MID-09 a request that fails, or leaves out an outcome, fails its own messages and no others", async () => {
    let requests = 0;
    const send = microBatch<number>({
      maxItems: 2,
      maxBytes: 100,
      bytesOf: () => 1,
      send: async (items) => {
        requests++;
        if (items.includes(2)) throw new Error("cut off");
        return items.slice(0, 1).map(() => sent);
      },
    });
    const ends = await Promise.allSettled([0, 1, 2, 3].map((item) => send(item, signal)));
    expect(requests).toBe(2);
    expect(ends.map((end) => end.status)).toEqual(["fulfilled", "rejected", "rejected", "rejected"]);
  });

  it("ADD-10 a request is aborted when no message of it is wanted any more, and not before", async () => {
    const [one, two] = [new AbortController(), new AbortController()];
    let request: AbortSignal | undefined;
    const send = microBatch<number>({
      maxItems: 10,
      maxBytes: 100,
      bytesOf: () => 1,
      send: (_, signal) => {
        request = signal;
        return new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
        });
      },
    });
    const ends = Promise.allSettled([send(1, one.signal), send(2, two.signal)]);
    while (request === undefined) await new Promise(setImmediate);
    one.abort(new Error("first"));
    expect(request.aborted).toBe(false);
    two.abort(new Error("second"));
    expect(request.aborted).toBe(true);
    expect((await ends).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });
});
