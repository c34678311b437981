import { once } from "node:events";
import { appDatabases, type BackedUpDatabases, backedUpDatabases } from "../app/jobs.js";
import { jsonLogger } from "../base/logger.js";
import { databaseOpeners } from "../config/database-openers.js";
import { createBackup } from "../sql/sqlite/backup/create-backup.js";
import { restoreBackup } from "../sql/sqlite/backup/restore-backup.js";
import { type Command, type CommandInput, exitCodes, flag, option, UsageError } from "./command.js";
import { requireDatabaseFile, withApp } from "./load-app.js";
import { databaseOptions, duration, jsonOption, print, text, withProgress } from "./terminal.js";

export const backupCommand: Command = {
  name: "backup",
  summary: "copy SQLite databases while they are in use, and delete old copies",
  usage: "backup [FILE …] --to DIR [--keep 7d] [--every 1h] [options]",
  options: {
    to: option("the folder of the back-ups; it is created"),
    keep: option("delete back-ups that are older, such as 12h or 30d, but never the newest; 7d by default"),
    every: option("stay and repeat, such as 15m or 1h; the log lines are JSON"),
    ...databaseOptions,
  },
  examples: [
    "oncebox backup --to backups --database sqlite:app.db",
    "oncebox backup inbox.db outbox.db --to /var/backups --keep 30d",
    "oncebox backup --to backups --every 1h --app dist/app.js",
  ],
  positionals: Number.POSITIVE_INFINITY,
  async run(input) {
    const { values, positionals } = input;
    if (values.to === undefined) throw new UsageError("backup needs --to DIR.");
    if (positionals.length === 0)
      return withApp(input, async (app) =>
        backUp(input, async () => backedUpDatabases(await appDatabases(app))),
      );
    if (values.app !== undefined || values.database !== undefined)
      throw new UsageError("Name files, or the databases of --app or --database, not both.");
    const open = await databaseOpeners.sqlite();
    const databases = positionals.map((file) => open({ file })); // a connection is opened at its first use
    return backUp(input, async () => backedUpDatabases(databases));
  },
};

async function backUp(input: CommandInput, select: () => Promise<BackedUpDatabases>): Promise<number> {
  const { values, terminal } = input;
  const { signal } = terminal;
  const { databases, notes } = await select();
  for (const note of notes) terminal.err(note);
  if (databases.length === 1) requireDatabaseFile(databases[0]!); // of several, the report names the missing ones
  const options = { to: text(values, "to")!, keepMs: duration(values, "keep", "7d") };
  if (values.every !== undefined) {
    const backup = createBackup(async () => (await select()).databases, {
      ...options,
      everyMs: duration(values, "every", "1h"),
      logger: jsonLogger("info", terminal.out),
    });
    backup.start();
    if (!signal.aborted) await once(signal, "abort");
    await backup.stop();
    return exitCodes.ok;
  }
  const backup = createBackup(databases, options);
  const { made, failed } = await withProgress(terminal, "backing up", () => backup.run({ signal }));
  const errors = failed.map(({ database, error }) => ({ database, error: error.message }));
  if (values.json) terminal.out(JSON.stringify({ made, failed: errors }));
  else {
    for (const { database, file, bytes, deleted } of made) {
      const old = deleted.length === 0 ? "" : `, ${deleted.length} old deleted`;
      terminal.out(`${database} → ${file} (${bytes} bytes, checked${old})`);
    }
    for (const { database, error } of errors) terminal.err(`${database} was not backed up. ${error}`);
  }
  return failed.length === 0 ? exitCodes.ok : exitCodes.failed;
}

export const restoreCommand: Command = {
  name: "restore",
  summary: "put a back-up in the place of a SQLite database that no process uses",
  usage: "restore --from BACKUP --to FILE [--force]",
  options: {
    from: option("the back-up; it is checked first"),
    to: option("the database's file"),
    force: flag("replace a file that exists; it is kept under another name"),
    ...jsonOption,
  },
  examples: ["oncebox restore --from backups/app.1f0c9a3e.20301231T235959999Z.db --to app.db --force"],
  async run(input) {
    const { values, terminal } = input;
    const from = text(values, "from");
    const to = text(values, "to");
    if (from === undefined || to === undefined) throw new UsageError("restore needs --from and --to.");
    const result = await withProgress(terminal, "restoring", () =>
      restoreBackup({ from, to, force: values.force === true }),
    );
    if (result.useUnknown)
      terminal.err(
        "The replaced file was too damaged to tell whether a process used it. Restart every process that did.",
      );
    const { bytes, replaced } = result;
    const kept = replaced === undefined ? "" : `\nWhat was there before is ${replaced} now.`;
    print(input, result, `${to} is restored from ${from} (${bytes} bytes, checked).${kept}`);
    return exitCodes.ok;
  },
};
