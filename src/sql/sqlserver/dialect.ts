import type { Dialect } from "../dialect.js";
import { statement } from "../driver.js";
import { isNameTaken } from "./faults.js";
import { inspection } from "./inspection.js";
import { keyStatements } from "./key-statements.js";
import { pollStatement } from "./poll-statement.js";
import { sqlServerReceiving } from "./receiving-dialect.js";
import { ledger, migrations, routines } from "./schema.js";
import { inboxStatements, outboxStatements } from "./statements.js";
import { sentView } from "./views.js";

export const sqlServerDialect: Dialect = {
  ...sqlServerReceiving,
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
    `declare @result int;
exec @result = sp_getapplock @Resource = @name, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 0;
select case when @result >= 0 then 1 else 0 end as locked`,
  ),
  batchSeparator: "\ngo\n",
  fromTime: (value) => (value instanceof Date ? value : new Date(String(value))),
};
