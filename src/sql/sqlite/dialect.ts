import type { Fault } from "../../queue/transient-retry.js";
import type { Dialect } from "../dialect.js";
import { ledger, migrations, names, routines } from "./schema.js";
import { inboxStatements, outboxStatements } from "./statements.js";

/** SQLITE_BUSY and SQLITE_LOCKED, whichever way the binding names them. */
function classify(error: unknown): Fault {
  const { errcode, code, message } = error as { errcode?: number; code?: string; message?: string };
  const busy =
    errcode === 5 ||
    errcode === 6 ||
    errcode === 261 || // SQLITE_BUSY_RECOVERY: another process is recovering the WAL
    errcode === 517 || // SQLITE_BUSY_SNAPSHOT
    /^SQLITE_(BUSY|LOCKED)/.test(code ?? "") ||
    /database (table )?is locked/.test(message ?? "");
  return busy ? "rolledBack" : "permanent";
}

export const sqliteDialect: Dialect = {
  name: "sqlite",
  defaults: { schema: "", inbox: "Inbox", outbox: "Outbox" },
  names,
  inbox: inboxStatements,
  outbox: outboxStatements,
  migrations,
  routines,
  ledger,
  toTime: (date) => date.getTime(),
  fromTime: (value) => new Date(Number(value)),
  classify,
  isSchemaMissing: (error) => /no such (table|column)/.test((error as Error)?.message ?? ""),
};
