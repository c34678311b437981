import { describe, expect, it } from "vitest";
import { gate } from "../contract/support/gate.js";
import { type LogLine, recordingLogger } from "../contract/support/recording-logger.js";
import {
  message,
  messages,
  never,
  pass,
  quiet,
  startRun,
  useSimulatedTime,
} from "../support/scripted-run.js";

describe("ending a run", () => {
  useSimulatedTime();

  it.each([
    ["it was stopped", "aborted"],
    ["its time is used up", "time"],
  ])("FUN-03 releases waiting messages when %s", async (_, stopped) => {
    const slot = gate();
    const run = startRun({ concurrency: 1, claims: [messages(2)], handlers: { t: () => slot.promise } });
    await quiet();
    if (stopped === "aborted") run.budget.stop();
    else run.budget.remaining = 99;
    slot.open();
    await pass(10);
    expect(await run.ended).toMatchObject({ released: 1, acked: 1, stopped });
    expect(run.seqsOf("release")).toEqual([2]);
  });

  const recordSignal = () => {
    const signals: AbortSignal[] = [];
    const t = (_message: unknown, { signal }: { readonly signal: AbortSignal }) => {
      signals.push(signal);
      return never();
    };
    return { signals, handlers: { t } };
  };
  const errorsOf = ({ calls }: ReturnType<typeof startRun>) =>
    calls.flatMap(({ items = [] }) => items.map(({ error }) => error));

  it("IBX-075 gives up a handler whose own time-out ends meanwhile, with that time-out as the reason", async () => {
    const { signals, handlers } = recordSignal();
    const run = startRun({ timeoutMs: 20, claims: [messages(1)], handlers });
    await quiet();
    run.budget.stop();
    await pass(20); // the run has 60 s left, and does not use them
    expect(await run.ended).toMatchObject({ abandoned: 1 });
    expect(errorsOf(run)).toEqual(["The handler did not finish within 20 ms."]);
    expect(signals[0]?.reason).toMatchObject({
      name: "TimeoutError",
      message: "The handler's 20 ms are over.",
    });
  });

  it("FUN-03 gives up a handler without a time-out when the time is over", async () => {
    const { signals, handlers } = recordSignal();
    const run = startRun({ claims: [messages(1)], handlers });
    await quiet();
    run.budget.remaining = 99; // less than the reserve
    await pass(500); // the next poll sees it
    await pass(100);
    expect(await run.ended).toMatchObject({ abandoned: 1, stopped: "time" });
    expect(errorsOf(run)).toEqual(["The function's time was up before the handler finished."]);
    expect(signals[0]?.reason).toMatchObject({ message: "The function's time is up." });
  });

  it.each([
    ["ends the process of a worker that is not stopping", false, 1],
    ["lets a worker that stops settle first", true, 0],
  ])("MID-09 a stuck handler in every slot %s", async (_, stops, reports) => {
    const settled = gate();
    let reported = 0;
    const run = startRun({
      concurrency: 1,
      timeoutMs: 20,
      claims: [messages(1)],
      answer: async () => void (await settled.promise),
      run: { keepPolling: true, onStuck: () => void reported++ },
    });
    await quiet();
    if (stops) run.budget.stop();
    await pass(40); // it is given up after 20 ms, and counts as stuck after as long again
    expect(reported).toBe(reports);
    settled.open();
    expect(await run.end()).toMatchObject({ stuck: 1, abandoned: 1 });
    expect(reported).toBe(reports);
  });

  it("FUN-03 releases the messages of a claim that was under way", async () => {
    const claimed = gate<ReturnType<typeof messages>>();
    const run = startRun({ claims: [() => claimed.promise] });
    await quiet();
    run.budget.stop();
    await quiet();
    claimed.open(messages(2));
    expect(await run.ended).toMatchObject({ claimed: 2, handled: 0, released: 2 });
    expect(run.sent()).toEqual(["release 1,2 of 1"]);
  });

  it("IBX-078 releases a message that was claimed again after it had been abandoned", async () => {
    const abandoned = gate();
    const run = startRun({
      claims: [messages(1), [message(1, { attempt: 1 })]],
      handlers: { t: () => Promise.reject(new Error("it failed")) },
      answer: async ({ verb }) => void (verb === "abandon" && (await abandoned.promise)),
    });
    await quiet();
    run.budget.stop();
    await quiet();
    abandoned.open();
    expect(await run.ended).toMatchObject({ handled: 1, abandoned: 1, released: 1 });
    expect(run.sent()).toEqual(["abandon 1 of 1", "release 1 of 2"]);
  });

  it("FUN-03 returns even if the last settlement does not", async () => {
    const logs: LogLine[] = [];
    const claimed = gate<ReturnType<typeof messages>>();
    const run = startRun({
      logger: recordingLogger(logs),
      claims: [() => claimed.promise],
      answer: () => never(),
    });
    await quiet();
    claimed.open(messages(1));
    expect(await run.end()).toMatchObject({ claimed: 1, released: 0 });
    expect(logs.map(({ message: line }) => line)).toContain("the time ended before everything was settled");
  });
});
