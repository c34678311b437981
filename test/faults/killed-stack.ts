import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { createInbox, createOutbox, migrate } from "../../src/index.js";
import type { ContractHarness, TestDatabase } from "../../src/testing/index.js";
import { bundleChild } from "../support/bundled-child.js";
import { orderStack } from "./order-stack.js";

const run = promisify(execFile);
const child = fileURLToPath(new URL("middleware-child.ts", import.meta.url));

export interface KillableHarness extends ContractHarness {
  /** How a child process opens it. */
  urlOf(database: TestDatabase): string;
}

/** Kills the stack at every point there is, and delivers the message again. */
export function killedStack(harness: KillableHarness): void {
  describe(`${harness.name}: the stack killed between every two statements`, () => {
    it("MID-08 dedup row, business rows and outbox rows are there together or not at all, and after the redelivery exactly once", async () => {
      const bundled = await bundleChild(child);
      const database = await harness.open();
      const { db, schema } = database;
      const named = schema === undefined ? {} : { schema };
      const prefix = schema === undefined ? "" : `${schema}.`;
      try {
        await migrate(db, named);
        for (const table of ["orders", "lines"])
          await database.raw(`create table ${prefix}${table} (id varchar(100) not null)`);
        const inbox = createInbox(db, named);
        const outbox = createOutbox(db, named);
        /** Answers how many points were passed; nothing when it was killed. */
        const deliver = async (messageId: string, killAt: number): Promise<number | undefined> => {
          const args = ["--no-warnings", bundled.path, harness.urlOf(database), schema ?? "", messageId];
          try {
            return Number((await run(process.execPath, [...args, String(killAt)])).stdout);
          } catch (error) {
            if ((error as { signal?: string }).signal === "SIGKILL") return undefined;
            throw error;
          }
        };
        const again = orderStack(db, schema);
        const rowsOf = async (messageId: string) => {
          const count = async (table: string) =>
            Number(
              (
                await database.raw(`select count(*) as n from ${prefix}${table} where id = '${messageId}'`)
              )[0]!.n,
            );
          const outgoing = (await outbox.list({ limit: 1_000 })).messages;
          return {
            inbox: (await inbox.get({ source: "s", messageId })) === null ? 0 : 1,
            orders: await count("orders"),
            lines: await count("lines"),
            outbox: outgoing.filter((message) => message.payload === messageId).length,
          };
        };
        const nothing = { inbox: 0, orders: 0, lines: 0, outbox: 0 };
        const all = { inbox: 1, orders: 1, lines: 1, outbox: 2 };

        const points = (await deliver("whole", 0))!;
        expect(await rowsOf("whole")).toEqual(all);
        expect(points).toBeGreaterThanOrEqual(14); // begin, commit, and four statements: before, on their way, answered
        const ends = await inPairs(points, async (killAt) => {
          const messageId = `killed-${killAt}`;
          expect(await deliver(messageId, killAt)).toBeUndefined();
          const left = await rowsOf(messageId);
          await again({ messageId });
          return { killAt, left, afterwards: await rowsOf(messageId) };
        });
        for (const { killAt, left, afterwards } of ends) {
          // only the very last point lies behind the commit
          expect({ killAt, left }).toEqual({ killAt, left: killAt === points ? all : nothing });
          expect({ killAt, afterwards }).toEqual({ killAt, afterwards: all });
        }
      } finally {
        await database.close();
        await bundled.remove();
      }
    }, 300_000);
  });
}

/** For 1 to `count`, two at a time. */
async function inPairs<T>(count: number, work: (index: number) => Promise<T>): Promise<readonly T[]> {
  const results: T[] = [];
  let next = 1;
  const worker = async (): Promise<void> => {
    for (let index = next++; index <= count; index = next++) results[index - 1] = await work(index);
  };
  await Promise.all([worker(), worker()]);
  return results;
}
