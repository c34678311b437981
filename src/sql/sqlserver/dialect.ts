import type { Dialect } from "../dialect.js";
import { due } from "./poll.js";
import { sqlServerReceiving } from "./receiving-dialect.js";
import { ledger, migrations, routines } from "./schema.js";
import { inboxStatements, outboxStatements } from "./statements.js";

export const sqlServerDialect: Dialect = {
  ...sqlServerReceiving,
  inbox: inboxStatements,
  outbox: outboxStatements,
  due,
  migrations,
  routines,
  ledger,
  batchSeparator: "\ngo\n",
  fromTime: (value) => (value instanceof Date ? value : new Date(String(value))),
};
