import { existsSync } from "node:fs";
import type { AppJobs } from "../app/jobs.js";
import { addResults, createMessageTables } from "../app/prepare-databases.js";
import { omitUndefined } from "../base/defined.js";
import { sentView, serviceTableOptions } from "../messaging/service-tables.js";
import type { Database } from "../sql/dialect.js";
import { sqliteFileOf } from "../sql/driver.js";
import { chosenQueues, type MigrateOptions, recordedMigration, schemaBatches } from "../sql/migrate.js";
import type { QueueNames } from "../sql/names.js";
import { appliedMigrations, checkSchema, isProblem, readCatalogue, runMigrate } from "./check-schema.js";
import { type Command, exitCodes, flag, UsageError } from "./command.js";
import { withApp } from "./load-app.js";
import { databaseOptions, print, withProgress } from "./terminal.js";

export const migrateCommand: Command = {
  name: "migrate",
  summary: "create or update the tables",
  usage: "migrate [--print [--all]] [--messages] [options]",
  options: {
    print: flag("print the SQL that the database still needs, for a DBA, instead of running it"),
    all: flag("with --print: print the whole schema, without asking the database"),
    messages: flag("create or update the tables of a service as well, messages_inbox and messages_outbox"),
    ...databaseOptions,
  },
  examples: [
    "oncebox migrate --database postgres://app@localhost/orders",
    "oncebox migrate --print --database postgres://owner@localhost/orders > pending.sql",
    "oncebox migrate --print --all --database mssql://db.example/orders > schema.sql",
  ],
  run: (input) =>
    withApp(input, async (app) => {
      const { values, terminal } = input;
      if (values.all && !values.print) throw new UsageError("--all is for --print.");
      const withMessages = values.messages === true;
      if (withMessages && app.tenants !== undefined)
        throw new UsageError("--messages is for one database. Name it: --database URL, without --app.");
      if (values.print) {
        const sql = await schemaOf(app, values.all ? "all" : "pending", withMessages);
        if (values.json) terminal.out(JSON.stringify({ sql }));
        else if (sql === "") terminal.err("The schema is up to date. --all prints the whole of it.");
        else terminal.out(sql);
        return exitCodes.ok;
      }
      const { applied, warnings } = await withProgress(terminal, "migrating", async () => {
        const result = await app.migrate();
        return withMessages
          ? addResults(result, await createMessageTables(app.db, app.migrateOptions))
          : result;
      });
      const text = applied.length === 0 ? "The schema is up to date." : `Applied: ${applied.join(", ")}.`;
      print(input, { applied, warnings }, text);
      for (const warning of warnings) terminal.err(`Warning: ${warning}`);
      return exitCodes.ok;
    }),
};

type SchemaPart = "pending" | "all";

/** Returns SQL for a DBA. For an app with tenants each text appears once, with the ids of its tenants. */
async function schemaOf(app: AppJobs, part: SchemaPart, withMessages: boolean): Promise<string> {
  if (app.tenants === undefined) {
    const own = await render(app.db, app.migrateOptions, part);
    return withMessages ? [own, await messagesOf(app, part)].filter((text) => text !== "").join("\n") : own;
  }
  const tenantsByText = new Map<string, string[]>();
  for (const store of await app.tenants.distinctStores()) {
    const { id, db, tables } = await app.tenants.stores(store);
    const text = await render(db, omitUndefined(tables), part);
    if (text !== "") tenantsByText.set(text, [...(tenantsByText.get(text) ?? []), id]);
  }
  return [...tenantsByText].map(([text, ids]) => `-- tenants: ${JSON.stringify(ids)}\n${text}`).join("\n");
}

/** A service's tables, and the view on them, which has no number: it is created anew whenever anything else is pending. */
async function messagesOf({ db, migrateOptions: { schema } }: AppJobs, part: SchemaPart): Promise<string> {
  const tables = await render(db, serviceTableOptions({ schema }), part);
  if (tables === "") return "";
  return [tables, ...sentView(db, { schema }).map((batch) => `${batch}${db.dialect.batchSeparator}`)].join(
    "\n",
  );
}

async function render(db: Database, options: MigrateOptions, part: SchemaPart): Promise<string> {
  const batches = part === "all" ? schemaBatches(db.dialect, options) : await pendingBatches(db, options);
  return batches.map((batch) => `${batch}${db.dialect.batchSeparator}`).join("\n");
}

/** What `migrate` would change in this database, batch by batch; empty where it is up to date. It changes nothing. */
async function pendingBatches(given: Database, options: MigrateOptions): Promise<readonly string[]> {
  const file = sqliteFileOf(given);
  const isNew = file !== undefined && !existsSync(file);
  const db = isNew ? given : ((await given.dialect.inspection.file?.(given))?.db ?? given);
  try {
    const pending: string[] = [];
    const queues = chosenQueues(given.dialect, options);
    for (const queue of queues) pending.push(...(await pendingOf(db, queue, isNew)));
    const schema = queues[0]?.schema ?? given.dialect.defaults.schema;
    return pending.length === 0 ? [] : [...given.dialect.ledger.prepare(schema), ...pending];
  } finally {
    if (db !== given) await db.close();
  }
}

async function pendingOf(db: Database, queue: QueueNames, isNew: boolean): Promise<readonly string[]> {
  const { dialect } = db;
  const applied = isNew ? new Set() : await appliedMigrations(db, queue);
  const migrations = dialect.migrations[queue.kind].filter(({ number }) => !applied.has(number));
  const isCurrent = migrations.length === 0 && !(await hasProblems(db, queue));
  if (isCurrent) return [];
  return [
    ...migrations.flatMap((migration) => recordedMigration(dialect, queue, migration)),
    ...dialect.routines(queue),
  ];
}

/** Routines have no number. They are pending where they are not the ones of this version. */
async function hasProblems(db: Database, queue: QueueNames): Promise<boolean> {
  const findings = await checkSchema(db, queue, () => readCatalogue(db, queue.schema));
  return findings.some((finding) => isProblem(finding) && finding.run === runMigrate);
}
