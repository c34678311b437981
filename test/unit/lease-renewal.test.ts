import { describe, expect, it } from "vitest";
import { LeaseLostError } from "../../src/queue/leases.js";
import { gate } from "../contract/support/gate.js";
import {
  lost,
  message,
  messages,
  never,
  pass,
  quiet,
  type RunScript,
  type StoreCall,
  startRun,
  useSimulatedTime,
} from "../support/scripted-run.js";

/** Every renewal finds that its messages are another worker's. */
const losing = ({ verb, messages: all }: StoreCall) => (verb === "renew" ? lost(all) : undefined);

/** Leases of 30 s are renewed after 10 s. No settlement is given up meanwhile. */
const start = (script: RunScript) => startRun({ leaseMs: 30_000, settleTimeoutMs: 100_000, ...script });

describe("the renewal of leases", () => {
  useSimulatedTime();

  it("FUN-03 renews waiting, running and settling messages, one call per claim, after a third of each lease", async () => {
    const settled = gate();
    const run = start({
      claims: [
        [message(1, { topic: "single" }), message(2, { topic: "single" })],
        [message(3, { topic: "quick" })],
      ],
      handlers: { single: { handle: never, concurrency: 1 }, quick: () => {} },
      answer: async ({ verb }) => void (verb === "ack" && (await settled.promise)),
    });
    const renewals = () =>
      run.calls
        .filter(({ verb }) => verb === "renew")
        .map(({ claim, seqs }) => `${[...seqs].sort().join()} of ${claim}`);
    await quiet();
    await pass(9_990);
    expect(renewals()).toEqual([]);
    await pass(10);
    expect(renewals()).toEqual(["1,2 of 1", "3 of 2"]);
    await pass(9_990);
    expect(renewals()).toHaveLength(2);
    await pass(10);
    expect(renewals().slice(2)).toEqual(["1,2 of 1", "3 of 2"]);
    settled.open();
    await run.end();
  });

  it("FUN-03 a renewal that does not return is given up, and tried again before the lease ends", async () => {
    let renewals = 0;
    const run = startRun({
      leaseMs: 1_200,
      claims: [messages(1)],
      answer: ({ verb }) => (verb === "renew" && ++renewals === 1 ? never() : undefined),
    });
    await quiet();
    await pass(1_190);
    expect(run.sent()).toEqual(["renew 1 of 1", "renew 1 of 1"]);
    expect(run.calls.map(({ signal }) => signal?.aborted)).toEqual([true, false]);
    expect(await run.end()).toMatchObject({ lost: 0, abandoned: 1 });
  });

  it("IBX-078 a waiting message whose lease is lost is dropped, and counted once", async () => {
    const mayEnd = gate();
    const run = start({
      claims: [[message(1), message(2, { topic: "single" }), message(3, { topic: "single" })]],
      handlers: { t: () => mayEnd.promise, single: { handle: () => mayEnd.promise, concurrency: 1 } },
      answer: ({ verb, messages: all }) =>
        verb === "renew" ? { changed: [], lost: all.filter(({ seq }) => seq === 3), dead: [] } : undefined,
    });
    await quiet();
    await pass(10_000);
    mayEnd.open();
    expect(await run.ended).toMatchObject({ acked: 2, lost: 1 });
    expect(run.started).toEqual([1, 2]);
  });

  it("IBX-078 a handler whose lease is lost is aborted and no longer renewed; it counts once, when it has ended", async () => {
    const mayEnd = gate();
    let signal: AbortSignal | undefined;
    const run = start({
      claims: [messages(1)],
      handlers: {
        t(_message, context) {
          signal = context.signal;
          return mayEnd.promise;
        },
      },
      answer: losing,
    });
    await quiet();
    await pass(10_000);
    expect(signal?.reason).toBeInstanceOf(LeaseLostError);
    await pass(10_000);
    expect(run.sent()).toEqual(["renew 1 of 1"]);
    mayEnd.open();
    expect(await run.ended).toMatchObject({ handled: 1, acked: 0, lost: 1 });
    expect(run.sent()).toEqual(["renew 1 of 1"]); // nothing is settled for it
  });

  it("IBX-078 a handler whose transaction acknowledges is not lost by its renewal", async () => {
    const acked = gate();
    const run = start({
      claims: [messages(1)],
      handlers: { t: { transactional: true, handle: () => {} } },
      answer: async (call) => {
        if (call.verb === "ack") await acked.promise;
        return losing(call);
      },
    });
    await quiet();
    await pass(10_000);
    expect(run.sent()).toEqual(["ack 1 of 1", "renew 1 of 1"]);
    acked.open();
    expect(await run.ended).toMatchObject({ handled: 1, acked: 1, lost: 0 });
  });

  it("IBX-078 a handler whose message was claimed again while its transaction committed counts as acknowledged", async () => {
    const acked = gate();
    const acking = gate();
    const run = start({
      claims: [
        messages(1),
        async () => {
          await acking.promise;
          return [message(1, { topic: "again" })];
        },
      ],
      handlers: { t: { transactional: true, handle: () => {} }, again: never },
      answer: async ({ verb }) => {
        if (verb === "ack") acking.open();
        if (verb === "ack") await acked.promise;
        return undefined;
      },
    });
    await quiet();
    acked.open();
    await quiet();
    expect(await run.end()).toMatchObject({ acked: 1, lost: 0 });
  });

  it("IBX-078 a message that is being settled is not lost by its renewal: its settlement shows whether it is", async () => {
    const settled = gate();
    const run = start({
      claims: [messages(1)],
      handlers: { t: () => {} },
      answer: async (call) => {
        if (call.verb === "ack") await settled.promise;
        return losing(call);
      },
    });
    await quiet();
    await pass(10_000);
    expect(run.sent()).toEqual(["ack 1 of 1", "renew 1 of 1"]);
    settled.open();
    expect(await run.ended).toMatchObject({ acked: 1, lost: 0 });
  });

  it("IBX-078 the lease of a message that was claimed again and lost again is forgotten: nothing is settled under it", async () => {
    const settled = gate();
    const run = start({
      claims: [messages(1), messages(1)],
      handlers: { t: () => {} },
      answer: async (call) => {
        if (call.verb === "ack") await settled.promise;
        return lost(call.messages);
      },
    });
    await quiet();
    await pass(10_000);
    expect(run.sent()).toEqual(["ack 1 of 1", "renew 1 of 2"]);
    settled.open();
    expect(await run.ended).toMatchObject({ acked: 0, lost: 1 });
    expect(run.sent()).toEqual(["ack 1 of 1", "renew 1 of 2"]);
  });
});
