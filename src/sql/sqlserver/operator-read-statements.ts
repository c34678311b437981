import type { OperatorReadStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { readControls } from "./control-statements.js";
import { deadStatements } from "./dead-statements.js";
import { signatures } from "./signatures.js";

export const operatorReadStatements = (n: QueueNames): OperatorReadStatements => ({
  ...deadStatements(n),
  controls: readControls(n),
  unfinished: callProcedure(n, "unfinished", "Unfinished", signatures.Unfinished),
  enqueuedBefore: callProcedure(n, "enqueued before", "EnqueuedBefore", signatures.EnqueuedBefore),
  doneBefore: callProcedure(n, "done before", "DoneBefore", signatures.DoneBefore),
  diedBefore: callProcedure(n, "died before", "DiedBefore", signatures.DiedBefore),
  blockedPartitions: callProcedure(
    n,
    "blocked partitions",
    "BlockedPartitions",
    signatures.BlockedPartitions,
  ),
  byCorrelation: callProcedure(n, "by correlation", "ByCorrelation", signatures.ByCorrelation),
});
