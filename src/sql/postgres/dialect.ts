import type { Dialect } from "../dialect.js";
import { statement } from "../driver.js";
import { isNameTaken } from "./faults.js";
import { inspection } from "./inspection.js";
import { keyStatements } from "./key-statements.js";
import { pollStatement } from "./poll-statement.js";
import { postgresReceiving } from "./receiving-dialect.js";
import { ledger, migrations, routines } from "./schema.js";
import { inboxStatements, outboxStatements } from "./statements.js";
import { sentView } from "./views.js";

export const postgresDialect: Dialect = {
  ...postgresReceiving,
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
  idempotencyLock: statement(
    "idempotency lock",
    "select pg_try_advisory_xact_lock(hashtextextended(:name::text, 7093)) as locked",
  ),
  batchSeparator: ";\n",
  // A Date cuts off fractions; a double of epoch seconds may be up to 0.0005 ms below the whole millisecond.
  fromTime: (value) => new Date((value as number) + 0.0005),
};
