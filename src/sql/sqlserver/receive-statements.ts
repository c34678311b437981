import type { ReceiveStatementOptions, ReceiveStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { signatures } from "./signatures.js";

export function receiveStatements(n: QueueNames, options: ReceiveStatementOptions): ReceiveStatements {
  const revive = options.reviveDead ? "1" : "0";
  return {
    receive: callProcedure(n, "receive", "Receive", signatures.Receive, { revive }),
    receiveMany: callProcedure(n, "receive many", "ReceiveMany", signatures.ReceiveMany, { revive }),
    receiveKeyed: callProcedure(n, "receive keyed", "ReceiveKeyed", signatures.ReceiveKeyed, { revive }),
  };
}
