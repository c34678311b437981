import { restoreBackup } from "../sql/sqlite/backup/restore-backup.js";
import { type Command, exitCodes, text, UsageError } from "./command.js";
import { withProgress } from "./progress.js";

export const restoreCommand: Command = {
  name: "restore",
  summary: "put a back-up in the place of a SQLite database that no process uses",
  usage: "restore --from BACKUP --to FILE [--force]",
  options: {
    from: { type: "string" },
    to: { type: "string" },
    force: { type: "boolean" },
    json: { type: "boolean" },
  },
  help: {
    from: "the back-up; it is checked first",
    to: "the database's file",
    force: "replace a file that exists; it is kept under another name",
    json: "print JSON",
  },
  examples: ["oncebox restore --from backups/app.1f0c9a3e.20301231T235959999Z.db --to app.db --force"],
  async run({ values, terminal }) {
    const from = text(values, "from");
    const to = text(values, "to");
    if (from === undefined || to === undefined) throw new UsageError("restore needs --from and --to.");
    const result = await withProgress(terminal, "restoring", () =>
      restoreBackup({ from, to, force: values.force === true }),
    );
    const { bytes, replaced, useUnknown } = result;
    if (useUnknown)
      terminal.err(
        `The replaced file was too damaged to tell whether a process used it. Restart every process that did.`,
      );
    if (values.json) terminal.out(JSON.stringify(result));
    else {
      terminal.out(`${to} is restored from ${from} (${bytes} bytes, checked).`);
      if (replaced !== undefined) terminal.out(`What was there before is ${replaced} now.`);
    }
    return exitCodes.ok;
  },
};
