import type { ReceivingDialect } from "../dialect.js";
import { classify, isDenied, isSchemaMissing } from "./faults.js";
import { names } from "./names.js";
import { receiveStatements } from "./receive-statements.js";

export const sqlServerReceiving: ReceivingDialect = {
  name: "sqlserver",
  embedded: false,
  defaults: { schema: "infra", inbox: "Inbox", outbox: "Outbox" },
  names,
  receiving: receiveStatements,
  buries: true,
  // Far below the 5,000 locks at which SQL Server would lock a whole table, and short enough to be waited for.
  mostItems: 1_000,
  // datetime2 has no time zone: every time in the tables is UTC.
  toTime: (date) => date.toISOString().slice(0, -1),
  classify,
  isSchemaMissing,
  isDenied,
};
