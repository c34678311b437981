import type { Dialect } from "../dialect.js";
import { isNameTaken } from "./faults.js";
import { inspection } from "./inspection.js";
import { keyStatements } from "./key-statements.js";
import { pollStatement } from "./poll-statement.js";
import { sqliteReceiving } from "./receiving-dialect.js";
import { ledger, migrations, routines } from "./schema.js";
import { inboxStatements, outboxStatements } from "./statements.js";
import { sentView } from "./views.js";

export const sqliteDialect: Dialect = {
  ...sqliteReceiving,
  inbox: inboxStatements,
  outbox: outboxStatements,
  keys: keyStatements,
  pollStatement,
  migrations,
  routines,
  sentView,
  ledger,
  inspection,
  isNameTaken,
  idempotencyLock: undefined, // one writer at a time is lock enough
  batchSeparator: ";\n",
  fromTime: (value) => new Date(Number(value)),
};
