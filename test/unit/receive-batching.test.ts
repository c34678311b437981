import { describe, expect, it } from "vitest";
import { receiveBatching } from "../../src/inbox/receive-batching.js";

interface Request {
  readonly items: readonly string[];
  readonly succeed: () => void;
  readonly fail: (error: Error) => void;
  readonly signal: AbortSignal | undefined;
}

/** Receives whose requests end when the test says so. An item's result is itself in capitals. */
function batching() {
  const running: Request[] = [];
  const receiveBatch = (items: readonly string[], signal: AbortSignal | undefined) =>
    new Promise<readonly string[]>((resolve, reject) => {
      const succeed = () => resolve(items.map((item) => item.toUpperCase()));
      const request = { items, succeed, fail: reject, signal };
      running.push(request);
      signal?.addEventListener("abort", () => {
        running.splice(running.indexOf(request), 1);
        reject(signal.reason);
      });
    });
  const receive = receiveBatching<string, string>({
    receiveOne: async (item, signal) => (await receiveBatch([item], signal))[0]!,
    receiveBatch,
    keyOf: (item) => item[0]!,
    sizeOf: (item) => item.length,
    isOutage: (error) => (error as Error).message === "outage",
  });
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const succeed = async (request: Request | undefined) => {
    running.splice(running.indexOf(request!), 1);
    request!.succeed();
    await settle();
  };
  const fail = async (request: Request | undefined, message: string) => {
    running.splice(running.indexOf(request!), 1);
    request!.fail(new Error(message));
    await settle();
  };
  const requested = () => running.map((request) => request.items.join(""));
  return { receive, running, succeed, fail, settle, requested };
}

describe("receive batching", () => {
  it("IBX-014 a call is sent at once, by itself, while fewer than four requests run", async () => {
    const { receive, succeed, running, requested } = batching();
    const result = receive("a", undefined);
    expect(requested()).toEqual(["a"]);
    await succeed(running[0]);
    expect(await result).toBe("A");
  });

  it("IBX-014 calls that arrive while four requests run are one batch as soon as one of them has ended", async () => {
    const { receive, succeed, running, requested } = batching();
    const results = [..."abcdefg"].map((item) => receive(item, undefined));
    expect(requested()).toEqual(["a", "b", "c", "d"]);
    await succeed(running[1]);
    expect(requested()).toEqual(["a", "c", "d", "efg"]);
    results.push(receive("h", undefined));
    while (running.length > 0) await succeed(running[0]);
    expect(await Promise.all(results)).toEqual([..."ABCDEFGH"]);
  });

  it("IBX-014 no batch has the same key twice", async () => {
    const { receive, succeed, running, requested } = batching();
    const results = ["a", "b", "c", "d", "x1", "y1", "x2", "x3"].map((item) => receive(item, undefined));
    await succeed(running[0]);
    expect(requested()).toEqual(["b", "c", "d", "x1y1"]);
    await succeed(running[0]);
    expect(requested()).toEqual(["c", "d", "x1y1", "x2"]);
    while (running.length > 0) await succeed(running[0]);
    expect((await Promise.all(results)).slice(4)).toEqual(["X1", "Y1", "X2", "X3"]);
  });

  it("IBX-014 a batch of large items is limited in size", async () => {
    const { receive, succeed, running } = batching();
    const large = (key: string) => key.repeat(600_000);
    const results = ["a", "b", "c", "d", large("e"), large("f"), "g"].map((item) => receive(item, undefined));
    await succeed(running[0]);
    expect(running.at(-1)!.items.map((item) => item[0])).toEqual(["e"]);
    while (running.length > 0) await succeed(running[0]);
    expect((await Promise.all(results)).map((result) => result[0])).toEqual([..."ABCDEFG"]);
  });

  it("IBX-102 an item that makes its batch fail rejects only its own call", async () => {
    const { receive, succeed, fail, running, requested } = batching();
    const results = [..."abcdefg"].map((item) => receive(item, undefined));
    const outcomes = Promise.allSettled(results);
    await succeed(running[0]);
    await fail(running[3], "bad f");
    expect(requested()).toEqual(["b", "c", "d", "e"]);
    await succeed(running[3]);
    await fail(running[3], "bad f");
    while (running.length > 0) await succeed(running[0]);
    expect((await outcomes).map((outcome) => outcome.status === "fulfilled")).toEqual([
      true,
      true,
      true,
      true,
      true,
      false,
      true,
    ]);
  });

  it("IBX-104 an outage rejects all calls of a batch, and later calls are sent", async () => {
    const { receive, succeed, fail, running, requested } = batching();
    const results = [..."abcdef"].map((item) => receive(item, undefined));
    const outcomes = Promise.allSettled(results.slice(4));
    await succeed(running[0]);
    await fail(running[3], "outage");
    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    const next = receive("g", undefined);
    expect(requested()).toEqual(["b", "c", "d", "g"]);
    while (running.length > 0) await succeed(running[0]);
    expect(await next).toBe("G");
  });

  it("IBX-014 a call aborted while it waits is not sent; one aborted in a batch does not stop the others", async () => {
    const { receive, succeed, running, requested } = batching();
    const first = [..."abcd"].map((item) => receive(item, undefined));
    const early = new AbortController();
    const late = new AbortController();
    const gone = receive("e", early.signal);
    const left = receive("f", late.signal);
    const kept = receive("g", undefined);
    early.abort(new Error("early"));
    await expect(gone).rejects.toThrow("early");
    await succeed(running[0]);
    expect(requested().at(-1)).toBe("fg");
    late.abort(new Error("late"));
    await expect(left).rejects.toThrow("late");
    while (running.length > 0) await succeed(running[0]);
    expect(await kept).toBe("G");
    expect(await Promise.all(first)).toEqual([..."ABCD"]);
  });

  it("IBX-104 a batch is aborted when all its calls are, and the next batch takes its slot", async () => {
    const { receive, succeed, running, settle, requested } = batching();
    const first = [..."abcd"].map((item) => receive(item, undefined));
    const waits = new AbortController();
    const longer = new AbortController();
    const outcomes = Promise.allSettled([receive("e", waits.signal), receive("f", longer.signal)]);
    await succeed(running[0]);
    expect(requested().at(-1)).toBe("ef");
    const next = [receive("g", undefined), receive("h", undefined)];
    waits.abort();
    await settle();
    expect(requested()).toEqual(["b", "c", "d", "ef"]);
    longer.abort();
    await settle();
    expect(requested()).toEqual(["b", "c", "d", "gh"]);
    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    while (running.length > 0) await succeed(running[0]);
    expect(await Promise.all([...first, ...next])).toEqual([..."ABCDGH"]);
  });

  it("IBX-104 a batch with a call that has no signal continues when the others are aborted", async () => {
    const { receive, succeed, running, settle, requested } = batching();
    const first = [..."abcd"].map((item) => receive(item, undefined));
    const waits = new AbortController();
    const gone = receive("e", waits.signal);
    const stays = receive("f", undefined);
    await succeed(running[0]);
    waits.abort(new Error("gave up"));
    await expect(gone).rejects.toThrow("gave up");
    await settle();
    expect(requested().at(-1)).toBe("ef");
    while (running.length > 0) await succeed(running[0]);
    expect(await stays).toBe("F");
    expect(await Promise.all(first)).toEqual([..."ABCD"]);
  });

  it("IBX-104 an outage while items are retried one by one rejects the rest at once", async () => {
    const { receive, succeed, fail, running, requested } = batching();
    const results = [..."abcdefgh"].map((item) => receive(item, undefined));
    const outcomes = Promise.allSettled(results.slice(4));
    await succeed(running[0]);
    await fail(running[3], "bad e");
    await fail(running[3], "bad e");
    expect(requested()).toEqual(["b", "c", "d", "f"]);
    await fail(running[3], "outage");
    expect(requested()).toEqual(["b", "c", "d"]);
    expect((await outcomes).map((one) => one.status === "rejected" && one.reason.message)).toEqual([
      "bad e",
      "outage",
      "outage",
      "outage",
    ]);
    while (running.length > 0) await succeed(running[0]);
  });
});
