import type { OperatorReadStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { readControls } from "./control-statements.js";
import { deadStatements } from "./dead-statements.js";
import { operatorReads } from "./operator-reads.js";
import { readStatement } from "./read-statement.js";

export function operatorReadStatements(n: QueueNames): OperatorReadStatements {
  const reads = operatorReads(n);
  return {
    ...deadStatements(n),
    controls: readControls(n),
    unfinished: readStatement(n, reads.unfinished),
    enqueuedBefore: readStatement(n, reads.enqueuedBefore),
    doneBefore: readStatement(n, reads.doneBefore),
    diedBefore: readStatement(n, reads.diedBefore),
    blockedPartitions: readStatement(n, reads.blockedPartitions),
    byCorrelation: readStatement(n, reads.byCorrelation),
  };
}
