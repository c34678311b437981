import type { ReceiveStatementOptions, ReceiveStatements, ReceivingDialect } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { names } from "./expressions.js";
import { classify, isDenied, isLockTimeout, isSchemaMissing } from "./faults.js";
import { callProcedure, received } from "./procedure-calls.js";

export const sqlServerReceiving: ReceivingDialect<"sqlserver"> = {
  name: "sqlserver",
  embedded: false,
  defaults: { schema: "infra", inbox: "Inbox", outbox: "Outbox" },
  names,
  receiving: receiveStatements,
  receivesDead: true,
  // Far below the 5,000 locks at which SQL Server would lock a whole table, and short enough to be waited for.
  maxItems: 1_000,
  // datetime2 has no time zone: every time in the tables is UTC.
  toTime: (date) => date.toISOString().slice(0, -1),
  ownClock: true,
  classify,
  isSchemaMissing,
  isDenied,
  isLockTimeout,
};

function receiveStatements(n: QueueNames, options: ReceiveStatementOptions): ReceiveStatements {
  const revive = options.keepContent ? "null" : options.reviveDead ? "1" : "0"; // without a word on reviving, nothing is rewritten
  const blocks = options.blockOnDead ? "1" : "0";
  return {
    receive: callProcedure(n, "receive", "ReceiveMessages", { revive }, received.one),
    receiveMany: callProcedure(n, "receive many", "ReceiveMessages", { revive, blocks }, received.many),
    mark: callProcedure(n, "mark", "Mark", { blocks }),
  };
}
