import type { App } from "../app/create-app.js";
import { type ExamineOptions, examine } from "../app/doctor/examine.js";
import type { Finding } from "../app/doctor/finding.js";
import { defined } from "../base/defined.js";
import { defaults } from "../sql/defaults.js";
import type { Database } from "../sql/dialect.js";
import { type Command, exitCodes, type Terminal, text, UsageError } from "./command.js";
import { requireDatabaseFile, withExistingDatabase } from "./existing-database.js";
import { storeHelp, storeOptions } from "./queue-stores.js";

export const doctorCommand: Command = {
  name: "doctor",
  summary: "compare the database with what this version expects, and say what to run",
  usage: "doctor [options]",
  options: storeOptions,
  help: { ...storeHelp, tenant: "one tenant's database; all tenants by default" },
  examples: [
    "oncebox doctor --database postgres://app@localhost/orders",
    "oncebox doctor --app dist/app.js --json",
  ],
  async run(input) {
    const { values, terminal } = input;
    return withExistingDatabase(input, async (app) => {
      const all: ExaminedFinding[] = [];
      const { retentionMs = defaults.retentionMs, deadRetentionMs } = app.retentions;
      for (const { db, tables } of await databasesOf(app, text(values, "tenant"))) {
        requireDatabaseFile(db);
        const found = await examine(db, { tables, retentionMs, deadRetentionMs });
        all.push(...found.map((finding) => ({ database: db.id, ...finding })));
      }
      const isHealthy = all.every(({ level }) => level === "note");
      if (values.json) terminal.out(JSON.stringify({ healthy: isHealthy, findings: all }));
      else print(all, isHealthy, terminal);
      return isHealthy ? exitCodes.ok : exitCodes.failed;
    });
  },
};

interface ExaminedFinding extends Finding {
  readonly database: string;
}

interface Examined extends Pick<ExamineOptions, "tables"> {
  readonly db: Database;
}

async function databasesOf(app: App, tenant: string | undefined): Promise<readonly Examined[]> {
  const { tenants } = app;
  if (tenants === undefined) {
    if (tenant !== undefined) throw new UsageError("--tenant is for an app with tenants; this one has none.");
    return [{ db: app.db, tables: app.migrateOptions }];
  }
  const ids = tenant === undefined ? await tenants.distinctStores() : [tenant];
  const stores = await Promise.all(ids.map((id) => tenants.stores(id)));
  return stores.map(({ db, tables }) => ({ db, tables: defined(tables) }));
}

function print(findings: readonly ExaminedFinding[], isHealthy: boolean, terminal: Terminal): void {
  for (const { database, check, level, message, run } of findings) {
    terminal.out(`${level} (${check}, ${database}): ${message}`);
    if (run !== null) terminal.out(`  run: ${run.replaceAll("\n", "\n       ")}`);
  }
  if (isHealthy) terminal.out("No problem was found.");
}
