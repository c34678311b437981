import { expect } from "vitest";
import type { MaintenanceReport } from "../../src/index.js";
import { newOwnerToken } from "../../src/queue/leases.js";
import type { Scenario } from "./scenarios.js";

/** The deployed functions of a cloud, with test/runtime/scenario-app.ts. */
export interface DeployedFunctions {
  /** A webhook of Stripe's with this id. */
  send(id: string): Promise<{ readonly status: number; readonly outcome?: string | undefined }>;
  /** The queue delivers the message with this id. Resolves to false when the queue has to deliver it again. */
  consume(id: string): Promise<boolean>;
  run(name: "dispatch" | "reap" | "cleanup"): Promise<unknown>;
}

const tries = 40;

/**
 * From the webhook to the clean-up, as a provider, a queue and a timer drive it: a provider sends again after a 503, a queue
 * delivers again, and a timer comes again. So it holds on a server that is too slow for the functions' deadlines at first.
 */
export async function patientScenario(
  functions: DeployedFunctions,
  { inbox, outbox, log }: Pick<Scenario, "inbox" | "outbox" | "log">,
): Promise<void> {
  const outcomes = new Map<string, string | undefined>();
  const deliver = async (id: string): Promise<void> => {
    for (let attempt = 1; ; attempt++) {
      const { status, outcome } = await functions.send(id);
      if (status === 200) return void outcomes.set(id, outcome);
      expect(status).toBe(503);
      expect(attempt).toBeLessThan(tries);
    }
  };
  /** A queue delivers again what was not accepted. */
  const takeFromQueue = async (id: string): Promise<void> => {
    for (let attempt = 1; !(await functions.consume(id)); attempt++) expect(attempt).toBeLessThan(tries);
  };
  /** The timer comes again after a run that failed. */
  const runUntil = async (
    name: "dispatch" | "reap" | "cleanup",
    isDone: (report: MaintenanceReport) => Promise<boolean>,
  ) => {
    for (let attempt = 1; ; attempt++) {
      const report = await functions.run(name).catch(() => undefined);
      if (report !== undefined && (await isDone(report as MaintenanceReport))) return;
      expect(attempt).toBeLessThan(tries);
    }
  };

  const ids = ["evt_1", "evt_2", "evt_3"];
  for (const id of ids) await deliver(id);
  // a 503 may come after the message was stored
  for (const id of ids) expect(outcomes.get(id)).toMatch(/^(enqueued|duplicate)$/);
  await deliver("evt_1");
  expect(outcomes.get("evt_1")).toBe("duplicate");

  const orders = ["order_1", "order_2"];
  for (const id of [...orders, ...orders]) await takeFromQueue(id);

  const all = [...ids, ...orders];
  await runUntil(
    "dispatch",
    async () => (await outbox.list({ state: "Done" })).messages.length === all.length,
  );
  for (const [word, expected] of [
    ["handled", ids],
    ["consumed", orders],
    ["published", all],
  ] as const)
    expect([...new Set(await log(word))].sort(), word).toEqual(expected);
  // A handler's message commits with its acknowledgement: one for each webhook and each order, however often it began.
  const receipts = (await outbox.list()).messages.map(({ correlationId }) => correlationId);
  expect(receipts.sort()).toEqual(all);
  await deliver("evt_1");
  expect(outcomes.get("evt_1")).toBe("done");

  // A worker claimed a message and crashed.
  await deliver("evt_4");
  expect(await inbox.claim({ owner: newOwnerToken(), batchSize: 1, leaseMs: 1 })).toHaveLength(1);
  await runUntil("reap", async ({ inbox }) => inbox.done === 1);
  await runUntil("cleanup", async () => (await inbox.list({ state: "Done" })).messages.length === 0);
  expect((await inbox.list()).messages.map(({ messageId }) => messageId)).toEqual(["evt_4"]);
}
