import type { DeadStatements, OperatorStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { controlStatements } from "./control-statements.js";
import { deadReads } from "./dead-reads.js";
import { operationStatements } from "./operation-statements.js";
import { readStatement } from "./read-statement.js";
import { signatures } from "./signatures.js";

export function deadStatements(n: QueueNames): DeadStatements {
  const { deadGroups, countDead } = deadReads(n);
  return { deadGroups: readStatement(n, deadGroups), countDead: readStatement(n, countDead) };
}

export const operatorStatements = (n: QueueNames): OperatorStatements => ({
  discard: callProcedure(n, "discard", "Discard", signatures.Discard),
  archive: callProcedure(n, "archive", "Archive", signatures.Archive),
  nextDead: readStatement(n, deadReads(n).nextDead),
  ...operationStatements(n),
  ...controlStatements(n),
});
