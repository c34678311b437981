import type { Fault } from "../../queue/transient-retry.js";
import type { Dialect } from "../dialect.js";
import { isBusy } from "./client.js";
import { due } from "./due.js";
import { ledger, migrations, names, routines } from "./schema.js";
import { inboxStatements, outboxStatements } from "./statements.js";

const classify = (error: unknown): Fault => (isBusy(error) ? "rolledBack" : "permanent");

export const sqliteDialect: Dialect = {
  name: "sqlite",
  embedded: true,
  defaults: { schema: "", inbox: "Inbox", outbox: "Outbox" },
  names,
  inbox: inboxStatements,
  outbox: outboxStatements,
  due,
  migrations,
  routines,
  ledger,
  batchSeparator: ";\n",
  toTime: (date) => date.getTime(),
  fromTime: (value) => new Date(Number(value)),
  classify,
  isSchemaMissing: (error) => /no such (table|column)/.test((error as Error)?.message ?? ""),
};
