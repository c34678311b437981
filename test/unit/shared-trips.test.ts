import { describe, expect, it } from "vitest";
import { sharedTrips } from "../../src/inbox/receive-batching.js";

interface Trip {
  readonly items: readonly string[];
  readonly arrive: () => void;
  readonly fail: (error: Error) => void;
  readonly signal: AbortSignal | undefined;
}

/** Trips that end when the test says so. An item's answer is itself in capitals. */
function trips() {
  const under: Trip[] = [];
  const travel = (items: readonly string[], signal: AbortSignal | undefined) =>
    new Promise<readonly string[]>((resolve, reject) => {
      const arrive = () => resolve(items.map((item) => item.toUpperCase()));
      const trip = { items, arrive, fail: reject, signal };
      under.push(trip);
      signal?.addEventListener("abort", () => {
        under.splice(under.indexOf(trip), 1);
        reject(signal.reason);
      });
    });
  const call = sharedTrips<string, string>({
    alone: async (item, signal) => (await travel([item], signal))[0]!,
    together: travel,
    keyOf: (item) => item[0]!,
    sizeOf: (item) => item.length,
    isOutage: (error) => (error as Error).message === "outage",
  });
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const end = async (trip: Trip | undefined) => {
    under.splice(under.indexOf(trip!), 1);
    trip!.arrive();
    await settle();
  };
  const fail = async (trip: Trip | undefined, message: string) => {
    under.splice(under.indexOf(trip!), 1);
    trip!.fail(new Error(message));
    await settle();
  };
  return { call, under, end, fail, settle, itemsUnder: () => under.map((trip) => trip.items.join("")) };
}

describe("calls that share round trips", () => {
  it("IBX-014 a call travels alone and at once while there is room", async () => {
    const { call, end, under, itemsUnder } = trips();
    const answer = call("a", undefined);
    expect(itemsUnder()).toEqual(["a"]);
    await end(under[0]);
    expect(await answer).toBe("A");
  });

  it("IBX-014 what comes while others are on their way goes together when one is back", async () => {
    const { call, end, under, itemsUnder } = trips();
    const answers = [..."abcdefg"].map((item) => call(item, undefined));
    expect(itemsUnder()).toEqual(["a", "b", "c", "d"]);
    await end(under[1]);
    expect(itemsUnder()).toEqual(["a", "c", "d", "efg"]);
    answers.push(call("h", undefined));
    while (under.length > 0) await end(under[0]);
    expect(await Promise.all(answers)).toEqual([..."ABCDEFGH"]);
  });

  it("IBX-014 the same key never travels twice in one group", async () => {
    const { call, end, under, itemsUnder } = trips();
    const answers = ["a", "b", "c", "d", "x1", "y1", "x2", "x3"].map((item) => call(item, undefined));
    await end(under[0]);
    expect(itemsUnder()).toEqual(["b", "c", "d", "x1y1"]);
    await end(under[0]);
    expect(itemsUnder()).toEqual(["c", "d", "x1y1", "x2"]);
    while (under.length > 0) await end(under[0]);
    expect((await Promise.all(answers)).slice(4)).toEqual(["X1", "Y1", "X2", "X3"]);
  });

  it("IBX-014 large items do not make one long trip", async () => {
    const { call, end, under } = trips();
    const large = (key: string) => key.repeat(600_000);
    const answers = ["a", "b", "c", "d", large("e"), large("f"), "g"].map((item) => call(item, undefined));
    await end(under[0]);
    expect(under.at(-1)!.items.map((item) => item[0])).toEqual(["e"]);
    while (under.length > 0) await end(under[0]);
    expect((await Promise.all(answers)).map((answer) => answer[0])).toEqual([..."ABCDEFG"]);
  });

  it("IBX-102 an item that fails its group fails for itself only", async () => {
    const { call, end, fail, under, itemsUnder } = trips();
    const answers = [..."abcdefg"].map((item) => call(item, undefined));
    const told = Promise.allSettled(answers);
    await end(under[0]);
    await fail(under[3], "bad f");
    expect(itemsUnder()).toEqual(["b", "c", "d", "e"]);
    await end(under[3]);
    await fail(under[3], "bad f");
    while (under.length > 0) await end(under[0]);
    expect((await told).map((outcome) => outcome.status === "fulfilled")).toEqual([
      true,
      true,
      true,
      true,
      true,
      false,
      true,
    ]);
  });

  it("IBX-104 an outage is told to all of a group, and the next ones go on", async () => {
    const { call, end, fail, under, itemsUnder } = trips();
    const answers = [..."abcdef"].map((item) => call(item, undefined));
    const told = Promise.allSettled(answers.slice(4));
    await end(under[0]);
    await fail(under[3], "outage");
    expect((await told).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    const next = call("g", undefined);
    expect(itemsUnder()).toEqual(["b", "c", "d", "g"]);
    while (under.length > 0) await end(under[0]);
    expect(await next).toBe("G");
  });

  it("IBX-014 one that is aborted while it waits is not sent, one in a group leaves it to the others", async () => {
    const { call, end, under, itemsUnder } = trips();
    const first = [..."abcd"].map((item) => call(item, undefined));
    const early = new AbortController();
    const late = new AbortController();
    const gone = call("e", early.signal);
    const left = call("f", late.signal);
    const kept = call("g", undefined);
    early.abort(new Error("early"));
    await expect(gone).rejects.toThrow("early");
    await end(under[0]);
    expect(itemsUnder().at(-1)).toBe("fg");
    late.abort(new Error("late"));
    await expect(left).rejects.toThrow("late");
    while (under.length > 0) await end(under[0]);
    expect(await kept).toBe("G");
    expect(await Promise.all(first)).toEqual([..."ABCD"]);
  });

  it("IBX-104 a trip that all have given up is given up too, and makes room for the next ones", async () => {
    const { call, end, under, settle, itemsUnder } = trips();
    const first = [..."abcd"].map((item) => call(item, undefined));
    const waits = new AbortController();
    const longer = new AbortController();
    const told = Promise.allSettled([call("e", waits.signal), call("f", longer.signal)]);
    await end(under[0]);
    expect(itemsUnder().at(-1)).toBe("ef");
    const next = [call("g", undefined), call("h", undefined)];
    waits.abort();
    await settle();
    expect(itemsUnder()).toEqual(["b", "c", "d", "ef"]);
    longer.abort();
    await settle();
    expect(itemsUnder()).toEqual(["b", "c", "d", "gh"]);
    expect((await told).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    while (under.length > 0) await end(under[0]);
    expect(await Promise.all([...first, ...next])).toEqual([..."ABCDGH"]);
  });

  it("IBX-104 one that waits without a limit keeps the trip of those that gave up", async () => {
    const { call, end, under, settle, itemsUnder } = trips();
    const first = [..."abcd"].map((item) => call(item, undefined));
    const waits = new AbortController();
    const gone = call("e", waits.signal);
    const stays = call("f", undefined);
    await end(under[0]);
    waits.abort(new Error("gave up"));
    await expect(gone).rejects.toThrow("gave up");
    await settle();
    expect(itemsUnder().at(-1)).toBe("ef");
    while (under.length > 0) await end(under[0]);
    expect(await stays).toBe("F");
    expect(await Promise.all(first)).toEqual([..."ABCD"]);
  });

  it("IBX-104 an outage while each goes alone is told to the rest at once", async () => {
    const { call, end, fail, under, itemsUnder } = trips();
    const answers = [..."abcdefgh"].map((item) => call(item, undefined));
    const told = Promise.allSettled(answers.slice(4));
    await end(under[0]);
    await fail(under[3], "bad e");
    await fail(under[3], "bad e");
    expect(itemsUnder()).toEqual(["b", "c", "d", "f"]);
    await fail(under[3], "outage");
    expect(itemsUnder()).toEqual(["b", "c", "d"]);
    expect((await told).map((one) => one.status === "rejected" && one.reason.message)).toEqual([
      "bad e",
      "outage",
      "outage",
      "outage",
    ]);
    while (under.length > 0) await end(under[0]);
  });
});
