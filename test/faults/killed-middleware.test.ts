import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, inject, it } from "vitest";
import { createInbox, createOutbox, migrate } from "../../src/index.js";
import type { KillableHarness } from "../contract/harness.js";
import { bundleChild } from "../support/bundled-child.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { sqliteHarness } from "../support/sqlite-harness.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { groupOfTwo, idsOf, orderFunction } from "./order-function.js";

const run = promisify(execFile);
const child = fileURLToPath(new URL("middleware-child.ts", import.meta.url));

const nothing = { inbox: 0, orders: 0, lines: 0, outbox: 0 };
const all = { inbox: 1, orders: 1, lines: 1, outbox: 2 };

const postgresUrl = inject("postgresUrl");
const sqlServerUrl = inject("sqlServerUrl");

killedMiddleware({ ...sqliteHarness("file"), urlOf: ({ db }) => db.id.slice("sqlite:".length) });
killedMiddleware({ ...postgresHarness(postgresUrl), urlOf: () => postgresUrl });
describe.skipIf(sqlServerUrl === "")("needs ONCEBOX_TEST_MSSQL_URL or Docker", () => {
  killedMiddleware({ ...sqlServerHarness(sqlServerUrl), urlOf: () => sqlServerUrl });
});

/** Kills the function at every point around its statements, and delivers its two messages again. */
function killedMiddleware(harness: KillableHarness): void {
  describe(`${harness.name}: the function killed between every two statements`, () => {
    it("MID-08 inbox row, business rows and outbox rows are stored together or not at all, and once after the redelivery, in order", async () => {
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
        /** Returns how many points were passed, or undefined when the function was killed. */
        const deliver = async (group: string, killAt: number): Promise<number | undefined> => {
          const args = ["--no-warnings", bundled.path, harness.urlOf(database), schema ?? "", group];
          try {
            return Number((await run(process.execPath, [...args, String(killAt)])).stdout);
          } catch (error) {
            if ((error as { signal?: string }).signal === "SIGKILL") return undefined;
            throw error;
          }
        };
        const again = orderFunction(db, schema);
        const rowsOf = async (messageId: string): Promise<"nothing" | "all" | object> => {
          const count = async (table: string) =>
            Number(
              (
                await database.raw(`select count(*) as n from ${prefix}${table} where id = '${messageId}'`)
              )[0]!.n,
            );
          const rows = {
            inbox: (await inbox.get({ source: "s", messageId })) === null ? 0 : 1,
            orders: await count("orders"),
            lines: await count("lines"),
            outbox: (await outgoing()).filter((payload) => payload === messageId).length,
          };
          const text = JSON.stringify(rows);
          return text === JSON.stringify(nothing) ? "nothing" : text === JSON.stringify(all) ? "all" : rows;
        };
        const outgoing = async () =>
          (await outbox.list({ limit: 1_000 })).messages.map((message) => message.payload);
        const bothOf = async ([first, second]: readonly [string, string]) =>
          [await rowsOf(first), await rowsOf(second)] as const;

        const points = (await deliver("whole", 0))!;
        expect(await bothOf(idsOf("whole"))).toEqual(["all", "all"]);
        expect(points).toBeGreaterThanOrEqual(2 * 14); // begin, commit, and four statements: before, sent, answered
        const ends = await inPairs(points, async (killAt) => {
          const group = `killed-${killAt}`;
          const [first, second] = idsOf(group);
          expect(await deliver(group, killAt)).toBeUndefined();
          const left = await bothOf([first, second]);
          expect(await again(groupOfTwo(group))).toEqual({ batchItemFailures: [] });
          const events = (await outgoing()).filter((payload) => payload.startsWith(`${group}-`));
          return { killAt, left, afterwards: await bothOf([first, second]), events, first, second };
        });
        for (const { killAt, left, afterwards, events, first, second } of ends) {
          // the last point of each message is after its commit
          const both = killAt === points ? "all" : "nothing";
          expect({ killAt, left }).toEqual({
            killAt,
            left: [killAt >= points / 2 ? "all" : "nothing", both],
          });
          expect({ killAt, afterwards }).toEqual({ killAt, afterwards: ["all", "all"] });
          expect(events).toEqual([first, first, second, second]);
        }
      } finally {
        await database.close();
        await bundled.remove();
      }
    }, 600_000);
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
