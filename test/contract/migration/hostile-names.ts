import { expect } from "vitest";
import { checkSchema, isProblem, readCatalogue } from "../../../src/cli/check-schema.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { disableNotify, enableNotify } from "../../../src/sql/postgres/notify.js";
import type { TestDatabase } from "../harness.js";
import { isBabelfish, rowCount } from "../support/database.js";
import { callPlainly } from "../support/plain-calls.js";

/** Names that end a string, a name, a statement or a comment, that look like parameters, or that are words of SQL. */
export const hostileNames = (victim: string): readonly string[] => [
  "with space",
  "semi;colon",
  'double"quote',
  "apo'strophe",
  "closing]bracket",
  "[bracketed]",
  `"; drop table ${victim}; --`,
  `]; drop table ${victim}; --`,
  `'; drop table ${victim}; --`,
  ":now",
  "@now",
  "$1",
  "?",
  "a:queue @name :number",
  "--",
  "/* */",
  "select",
  "returning",
  "%s back\\slash `tick`",
  "dots.in.it",
  "Ünïcode 名前 😀",
];

/** Those that aim at one place: a quote that is doubled, a text within a text, a conversion, a pattern. */
export const furtherHostileNames = (victim: string): readonly string[] => [
  // quotes that are doubled already, one by one and two by two
  `""; drop table ${victim}; --`,
  `]]; drop table ${victim}; --`,
  `''; drop table ${victim}; --`,
  `x'''y""z]]]`,
  `\\'; drop table ${victim}; --`,
  // characters that a conversion may turn into quotes
  `ʼ; drop table ${victim}; --`,
  `＇; drop table ${victim}; --`,
  `＂; drop table ${victim}; --`,
  // ends of dollar quotes, patterns of replacements, formats, variables of sqlcmd
  `$$; drop table ${victim}; --`,
  "$notify$ $body$ $_$",
  "$& $' $` $1 $<n>",
  "%I %L %1$s {0} \\0",
  "$(Schema)",
  "N'a' + N'b'",
  "'||current_user||'",
  "\u202eright to left\u200b",
  "a:b::c :: d",
];

interface HostileQueues {
  readonly schema: string;
  readonly inbox: string;
  readonly outbox: string;
}

/** What hostile names pass through beside migrate and the functions' own calls. */
export async function useByOperators(
  database: TestDatabase,
  { schema, inbox: inboxTable, outbox: outboxTable }: HostileQueues,
): Promise<void> {
  const { db } = database;
  const queues = [
    {
      names: db.dialect.names("inbox", schema, inboxTable),
      queue: createInbox(db, { schema, table: inboxTable }),
    },
    {
      names: db.dialect.names("outbox", schema, outboxTable),
      queue: createOutbox(db, { schema, table: outboxTable }),
    },
  ];
  for (const { names, queue } of queues) {
    const shown = await rowCount(database, names.view);
    const added =
      names.kind === "inbox"
        ? { source: "s", message_id: "plain", topic: "t", payload: "p" }
        : { topic: "t", payload: "p" };
    await callPlainly(database, names, added);
    expect(await rowCount(database, names.view), names.table).toBe(shown + 1);
    await useOperators(queue);
    // Babelfish gets other texts than SQL Server does
    const findings = (await isBabelfish(database))
      ? []
      : await checkSchema(db, names, () => readCatalogue(db, schema));
    expect(findings.filter(isProblem), names.table).toEqual([]);
    if (db.dialect.name !== "postgres") continue;
    const which = { kind: names.kind, schema, table: names.table };
    await enableNotify(db, which);
    await disableNotify(db, which);
  }
  const keys = createSqlInboxStore(db, { schema, table: inboxTable });
  await keys.markProcessed("k");
  expect(await keys.isProcessed("k")).toBe(true);
  await keys.purge();
}

async function useOperators(queue: Parameters<typeof operatorsOf>[0]): Promise<void> {
  const by = { by: "alice" };
  const operators = operatorsOf(queue);
  const owner = newOwnerToken();
  const claimed = await queue.claim({ owner });
  expect(claimed.length).toBeGreaterThan(0);
  await queue.fail(owner, claimed as never, "no");
  expect(await operators.countDead()).toBeGreaterThan(0);
  expect(await operators.deadGroups()).toHaveLength(1);
  const { id } = await operators.startOperation("replay", { topic: "t" }, by);
  expect((await operators.continueOperation(id)).done).toBe(claimed.length);
  expect(await operators.operations()).toHaveLength(1);
  const again = await queue.claim({ owner });
  await queue.fail(owner, again as never, "no");
  await operators.archive([again[0]!], by);
  if (again[1] !== undefined) await operators.discard([again[1]], by);
  if (again[2] !== undefined) await operators.editAndReplay(again[2], { payload: "q" }, by);
  await operators.pause({ topic: "t" }, by);
  await operators.limit({ topic: "t", perSecond: 1 }, by);
  expect(await operators.controls()).not.toEqual([]);
  await operators.resume({ topic: "t" }, by);
  await operators.limit({ topic: "t", perSecond: null } as never, by).catch(() => {});
  await operators.activity();
  await operators.blockedPartitions();
  await operators.byCorrelation("c");
  await operators.unhandled();
}
