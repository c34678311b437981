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
import { drainReturning, handlerKinds } from "./returning-dispatcher.js";

const run = promisify(execFile);
const child = fileURLToPath(new URL("returning-child.ts", import.meta.url));
const postgresUrl = inject("postgresUrl");
const sqlServerUrl = inject("sqlServerUrl");

killedReturning({ ...sqliteHarness("file"), urlOf: ({ db }) => db.id.slice("sqlite:".length) });
killedReturning({ ...postgresHarness(postgresUrl), urlOf: () => postgresUrl });
describe.skipIf(sqlServerUrl === "")("needs ONCEBOX_TEST_MSSQL_URL or Docker", () => {
  killedReturning({ ...sqlServerHarness(sqlServerUrl), urlOf: () => sqlServerUrl });
});

/** Kills the dispatcher at every point around its statements, and lets another one go on when the leases have expired. */
function killedReturning(harness: KillableHarness): void {
  describe.each(handlerKinds)(
    `${harness.name}: a dispatcher with %s handlers killed between every two statements`,
    (kind) => {
      it("ADD-21 a message is acknowledged and what its handler returned is stored, or neither; and each once in the end", async () => {
        const bundled = await bundleChild(child);
        const database = await harness.open();
        const { db } = database;
        const schema = database.schema ?? "";
        const named = schema === "" ? {} : { schema };
        try {
          await migrate(db, named);
          const inbox = createInbox(db, named);
          const outbox = createOutbox(db, named);
          const size = kind === "plain" ? 2 : 1; // the messages of a plain handler are settled together
          const ids = (group: string) => Array.from({ length: size }, (_, index) => `${group}-${index}`);
          const receive = (group: string) =>
            inbox.enqueue(
              ids(group).map((messageId) => ({ source: "s", messageId, topic: "t", payload: "" })),
            );
          /** Returns how many points were passed, or undefined when it was killed. */
          const drain = async (killAt: number): Promise<number | undefined> => {
            const args = [
              "--no-warnings",
              bundled.path,
              harness.urlOf(database),
              schema,
              kind,
              String(killAt),
            ];
            try {
              return Number((await run(process.execPath, args)).stdout);
            } catch (error) {
              if ((error as { signal?: string }).signal === "SIGKILL") return undefined;
              throw error;
            }
          };
          const names = (queue: "inbox" | "outbox") =>
            db.dialect.names(
              queue,
              schema === "" ? db.dialect.defaults.schema : schema,
              db.dialect.defaults[queue],
            );
          const done = names("inbox").object(db.dialect.name === "postgres" ? "_done" : "Done");
          /** In one statement, because the server may still be busy with what the dead process has sent. */
          const stored = async () => {
            const [row] = await database.raw(
              `select (select count(*) from ${done}) as done, (select count(*) from ${names("outbox").message}) as sent`,
            );
            return { done: Number(row!.done), sent: Number(row!.sent) };
          };
          const inAnHour = () => new Date(Date.now() + 3_1_200_000);
          const sentBy = async (group: string) =>
            (await outbox.list({ limit: 1_000 })).messages
              .map(({ topic, payload }) => `${payload} ${topic}`)
              .filter((text) => text.startsWith(`${group}-`))
              .sort();

          /** Handles what the dead process left, when its leases have expired. */
          const recover = async (): Promise<void> => {
            for (let tries = 0; tries < 20 && (await stored()).done < size * groups; tries++)
              await drainReturning(db, { schema, kind, clock: inAnHour });
          };
          let groups = 0;
          const receiveGroup = async (): Promise<string> => {
            const group = `group-${++groups}`;
            await receive(group);
            return group;
          };

          await receiveGroup();
          const points = (await drain(0))!;
          expect(await stored()).toEqual({ done: size, sent: 2 * size });
          expect(points).toBeGreaterThanOrEqual(9); // the claims and the settlement: before, sent, answered
          for (let killAt = 1; killAt <= points; killAt++) {
            let group = await receiveGroup();
            // On a slow server, the claim of the process that died before may take the messages: then once more.
            while (groups < 3 * points && (await drain(killAt)) !== undefined) {
              await recover();
              group = await receiveGroup();
            }
            const left = await stored();
            expect({ killAt, ...left }).toEqual({ killAt, done: left.done, sent: 2 * left.done });
            await recover();
            expect(await stored()).toEqual({ done: size * groups, sent: 2 * size * groups });
            expect(await sentBy(group)).toEqual(ids(group).flatMap((id) => [`${id} first`, `${id} second`]));
          }
        } finally {
          await database.close();
          await bundled.remove();
        }
      }, 1_200_000);
    },
  );
}
