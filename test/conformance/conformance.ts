import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { stepText } from "../../proof/explore.js";
import { loadModel } from "../../proof/promela.js";
import { walker } from "../../proof/walk.js";
import { queueKinds } from "../../src/queue/work-store.js";
import type { ContractHarness, TestDatabase } from "../contract/harness.js";
import { times } from "../support/times.js";
import { compare, openRealQueue, play } from "./real-queue.js";

const file = new URL("../../proof/leases.pml", import.meta.url);

/** Larger than what is explored: a trace needs no more time for it. */
export const traceSizes = { N: 12, T: 4, KEYS: 2, BATCH: 3, MAX: 4 };
export const stepsOfTrace = 100;
const tracesPerDatabase = 40;

/** Random traces of the model on the database: after each step both are in the same state. */
export function conformance(harness: ContractHarness, traces: number): void {
  describe(`the model of leases on ${harness.name}`, () => {
    let opened: TestDatabase | undefined;
    let traced = 0;
    /** Another one now and then: each trace makes tables, and a database with many is slow. */
    const nextDatabase = async (): Promise<TestDatabase> => {
      if (opened !== undefined && ++traced % tracesPerDatabase !== 0) return opened;
      await opened?.close();
      opened = await harness.open();
      return opened;
    };
    afterAll(() => opened?.close());

    it.each(queueKinds)(
      "ADD-28 random traces of the model leave the rows of the %s in the model's state after each step",
      async (kind) => {
        const replay = async (BLOCK: number, LEASE: number, choices: readonly number[]): Promise<void> => {
          // what the handler of an inbox returns goes to another queue
          const model = loadModel(file, { ...traceSizes, BLOCK, LEASE, RETURNS: kind === "outbox" ? 1 : 0 });
          const database = await nextDatabase();
          const real = await openRealQueue(database, kind, model);
          const walk = walker(model, database.supports.rowLocks);
          const trace: string[] = [];
          for (const choice of choices) {
            const owners = model.variables.owner!.slice();
            const step = walk(choice);
            trace.push(stepText(step));
            try {
              await play(real, model, step, owners);
              await compare(real, model);
            } catch (error) {
              throw new Error(
                `With BLOCK ${BLOCK} and LEASE ${LEASE}, after ${trace.join("; ")}:\n${String(error)}`,
                {
                  cause: error,
                },
              );
            }
          }
          expect(trace).toHaveLength(choices.length);
        };
        await fc.assert(
          fc.asyncProperty(
            fc.constantFrom(0, 1),
            fc.constantFrom(1, 2),
            fc.array(fc.nat(), { minLength: stepsOfTrace, maxLength: stepsOfTrace }),
            replay,
          ),
          { numRuns: times(traces), endOnFailure: true },
        );
      },
      3_600_000,
    );
  });
}
