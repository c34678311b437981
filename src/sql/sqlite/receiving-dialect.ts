import type { ReceivingDialect } from "../dialect.js";
import { classify, isSchemaMissing } from "./faults.js";
import { names } from "./names.js";
import { receiveStatements } from "./receive-statements.js";

export const sqliteReceiving: ReceivingDialect = {
  name: "sqlite",
  embedded: true,
  defaults: { schema: "", inbox: "Inbox", outbox: "Outbox" },
  names,
  receiving: receiveStatements,
  toTime: (date) => date.getTime(),
  classify,
  isSchemaMissing,
};
