import type { ReceiveStatementOptions, ReceiveStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { call, withHash } from "./call-procedure.js";
import { signatures } from "./signatures.js";

export function receiveStatements(n: QueueNames, options: ReceiveStatementOptions): ReceiveStatements {
  const revive = options.reviveDead ? "1" : "0";
  const hash = "@bytes";
  return {
    receive: withHash(call(n, "receive", "Receive", signatures.Receive, { hash, revive })),
    receiveMany: call(n, "receive many", "ReceiveMany", signatures.ReceiveMany, { revive }),
    receiveKeyed: call(n, "receive keyed", "ReceiveKeyed", signatures.ReceiveKeyed, { revive }),
  };
}
