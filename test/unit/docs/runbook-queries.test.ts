import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import {
  createInbox,
  createOutbox,
  type Inbox,
  migrate,
  newOwnerToken,
  type Outbox,
  type SqlRow,
} from "../../../src/index.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import { type ContractHarness, type TestDatabase, testClock } from "../../contract/harness.js";
import { inSchemaOf } from "../../contract/support/database.js";
import { codeBlocks } from "../../support/markdown.js";
import { postgresHarness } from "../../support/postgres-harness.js";
import { sqliteHarness } from "../../support/sqlite-harness.js";
import { sqlServerHarness } from "../../support/sqlserver-harness.js";

const titles = { postgres: "PostgreSQL", sqlserver: "SQL Server", sqlite: "SQLite" } as const;
const queues = ["inbox", "outbox"] as const;
type Queue = (typeof queues)[number];

const payload = "secret-order";
const minute = 60_000;
const hour = 60 * minute;

interface Sent {
  readonly id: string;
  readonly topic: string;
  readonly partitionKey?: string;
  readonly dueAt?: Date;
}

/** Fills a queue within the hour before `now`. Returns the id that each message has in the table, by its name here. */
async function fill(
  { db, schema }: TestDatabase,
  queue: Queue,
  now: number,
): Promise<(name: string) => string> {
  const clock = testClock(now - hour);
  const options = { ...inSchemaOf({ schema }), clock, deadInPartition: "block" } as const;
  const store: Inbox | Outbox = queue === "inbox" ? createInbox(db, options) : createOutbox(db, options);
  const ids = new Map<string, string>();
  const send = async ({ id, ...rest }: Sent): Promise<void> => {
    if ("receive" in store) {
      await store.receive({ source: "s", messageId: id, payload, ...rest });
      ids.set(id, id);
    } else ids.set(id, (await store.enqueue({ payload, ...rest })) as string);
  };
  const claim = async (leaseMs = minute) => {
    const owner = newOwnerToken();
    const claimed = await (store as Inbox).claim({ owner, leaseMs });
    return { owner, claimed };
  };
  const fail = async (error: string) => {
    const { owner, claimed } = await claim();
    await (store as Inbox).fail(owner, claimed, error);
  };
  const abandon = async (error: string) => {
    const { owner, claimed } = await claim();
    await (store as Inbox).abandon(
      owner,
      claimed.map((message) => ({ message, error })),
    );
  };
  const acknowledge = async () => {
    const { owner, claimed } = await claim();
    await (store as Inbox).ack(owner, claimed);
  };

  await send({ id: "done", topic: "orders" });
  await acknowledge();
  for (const [id, error] of [
    ["dead 1", "timed out after 12 ms"],
    ["dead 2", "timed out after 99 ms"],
  ] as const) {
    await send({ id, topic: "broken" });
    await fail(error);
  }
  clock.advance(20 * minute);
  for (const id of ["head", "second", "third"]) await send({ id, topic: "keyed", partitionKey: "blocked" });
  await fail("refused");
  clock.advance(30 * minute); // ten minutes ago
  await send({ id: "held", topic: "paused" });
  await operatorsOf(store).pause({ topic: "paused" }, { by: "alice" });
  await claim();
  for (const id of ["busy 1", "busy 2"]) await send({ id, topic: "keyed", partitionKey: "busy" });
  await send({ id: "leased", topic: "slow" });
  await claim(2 * hour);
  await send({ id: "retried", topic: "orders" });
  await abandon("503");
  await send({ id: "lost", topic: "killed" });
  await claim();
  clock.advance(3 * minute);
  await send({ id: "waiting 1", topic: "orders" });
  clock.advance(minute);
  await send({ id: "waiting 2", topic: "orders" });
  await send({ id: "later", topic: "orders", dueAt: new Date(now + hour) });
  return (name) => ids.get(name)!.toLowerCase();
}

function runbookQueries(harness: ContractHarness): void {
  const now = Date.now();
  let database: TestDatabase;
  const idOf = {} as Record<Queue, (name: string) => string>;
  beforeAll(async () => {
    database = await harness.open();
    await migrate(database.db, inSchemaOf(database));
    for (const queue of queues) idOf[queue] = await fill(database, queue, now);
  }, 120_000);
  afterAll(() => database?.close(), 120_000);

  /** The page's query behind a heading, changed as the page says for the outbox. */
  const rowsOf = async (heading: string, queue: Queue): Promise<readonly SqlRow[]> => {
    const title = `-- ${titles[database.db.dialect.name as keyof typeof titles]}`;
    const block = codeBlocks("docs/runbook.md", "sql", `### ${heading}`)
      .slice(0, 3)
      .find((text) => text.split("\n")[0]!.split(":")[0] === title)!;
    const own = block.replaceAll("infra.", `${database.schema}.`);
    const changed =
      queue === "inbox"
        ? own
        : own
            .replaceAll("inbox", "outbox")
            .replaceAll("Inbox", "Outbox")
            .replaceAll("m.source, m.message_id", "m.id");
    const rows = await database.raw(changed);
    expect(JSON.stringify(rows)).not.toContain(payload);
    return rows;
  };
  const key = (queue: Queue, name: string) =>
    queue === "inbox" ? { source: "s", message_id: name } : { id: idOf.outbox(name) };
  const keyIn = (row: SqlRow) =>
    "id" in row ? { id: String(row.id).toLowerCase() } : { source: row.source, message_id: row.message_id };
  const minutesAgo = (value: unknown) => Math.round((now - new Date(value as string).getTime()) / minute);

  describe.each(queues)("on the %s", (queue) => {
    it("ADD-02 the backlog by topic", async () => {
      const rows = await rowsOf("Unfinished messages by topic", queue);
      const numbers = rows.map(({ topic, waiting, leased, blocked, retried }) => [
        topic,
        ...[waiting, leased, blocked, retried].map(Number),
      ]);
      expect(numbers).toEqual([
        ["keyed", 4, 1, 3, 0],
        ["orders", 4, 0, 0, 1],
        ["killed", 1, 0, 0, 0],
        ["paused", 1, 0, 0, 0],
        ["slow", 1, 1, 0, 0],
      ]);
    });

    it("ADD-02 the oldest due messages", async () => {
      const rows = await rowsOf("Oldest due messages", queue);
      expect(
        rows.map((row) => ({ ...keyIn(row), ago: minutesAgo(row.due_since), error: row.last_error })),
      ).toEqual([
        { ...key(queue, "held"), ago: 10, error: null },
        { ...key(queue, "retried"), ago: 10, error: "503" },
        { ...key(queue, "lost"), ago: 9, error: null },
        { ...key(queue, "waiting 1"), ago: 7, error: null },
        { ...key(queue, "waiting 2"), ago: 6, error: null },
      ]);
      expect(rows.map((row) => [row.topic, Number(row.attempt)])).toEqual([
        ["paused", 0],
        ["orders", 1],
        ["killed", 0],
        ["orders", 0],
        ["orders", 0],
      ]);
    });

    it("ADD-02 leases that expired", async () => {
      const rows = await rowsOf("Leases that expired", queue);
      expect(
        rows.map((row) => ({ ...keyIn(row), topic: row.topic, ago: minutesAgo(row.locked_until) })),
      ).toEqual([{ ...key(queue, "lost"), topic: "killed", ago: 9 }]);
      expect(rows[0]!.owner).toEqual(expect.any(String));
      expect([rows[0]!.attempt, rows[0]!.crashes].map(Number)).toEqual([0, 0]);
    });

    it("ADD-02 dead messages by error group, under the group that `dead replay --group` takes", async () => {
      const store =
        queue === "inbox"
          ? createInbox(database.db, inSchemaOf(database))
          : createOutbox(database.db, inSchemaOf(database));
      const groups = await operatorsOf(store).deadGroups();
      const rows = await rowsOf("Dead messages by error group", queue);
      expect(rows.map(({ error_group, dead }) => [error_group, Number(dead)])).toEqual(
        groups.map(({ errorGroup, count }) => [errorGroup, count]),
      );
      expect(
        rows.map(({ dead, error, first_at, last_at }) => [
          Number(dead),
          error,
          minutesAgo(first_at),
          minutesAgo(last_at),
        ]),
      ).toEqual([
        [2, "timed out after 12 ms", 60, 60],
        [1, "refused", 40, 40],
      ]);
    });

    it("ADD-01 blocked and biggest partition keys", async () => {
      const rows = await rowsOf("Blocked and biggest partition keys", queue);
      const shown = rows.map((row) => ({
        ...keyIn(row),
        partition: row.partition_key,
        behind: Number(row.behind),
        head: row.head,
        error: row.last_error,
      }));
      expect(shown).toEqual([
        { ...key(queue, "head"), partition: "blocked", behind: 2, head: "dead", error: "refused" },
        { ...key(queue, "busy 1"), partition: "busy", behind: 1, head: "leased", error: null },
      ]);
    });
  });
}

describe("the queries of the runbook on SQLite", () => runbookQueries(sqliteHarness("file")));

describe("the queries of the runbook on PostgreSQL", () =>
  runbookQueries(postgresHarness(inject("postgresUrl"))));

const sqlServerUrl = inject("sqlServerUrl");
describe.skipIf(sqlServerUrl === "")(
  "the queries of the runbook on SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)",
  () => runbookQueries(sqlServerHarness(sqlServerUrl)),
);
