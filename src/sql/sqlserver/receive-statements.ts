import type { ReceiveStatementOptions, ReceiveStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { marked, received } from "./signatures.js";

export function receiveStatements(n: QueueNames, options: ReceiveStatementOptions): ReceiveStatements {
  const revive = options.reviveDead ? "1" : "0";
  const blocks = options.blockOnDead ? "1" : "0";
  const many = (name: string) => callProcedure(n, name, "Receive", received.many, { revive, blocks });
  return {
    receive: callProcedure(n, "receive", "Receive", received.one, { revive }),
    receiveMany: many("receive many"),
    receiveKeyed: many("receive keyed"),
    mark: callProcedure(n, "mark", "Mark", marked, { blocks }),
  };
}
