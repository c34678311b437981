import type { ReceivingDialect } from "../dialect.js";
import { classify, isDenied, isSchemaMissing } from "./faults.js";
import { names } from "./names.js";
import { receiveStatements } from "./receive-statements.js";

export const postgresReceiving: ReceivingDialect = {
  name: "postgres",
  embedded: false,
  defaults: { schema: "infra", inbox: "inbox", outbox: "outbox" },
  names,
  receiving: receiveStatements,
  toTime: (date) => date.toISOString(),
  classify,
  isSchemaMissing,
  isDenied,
};
