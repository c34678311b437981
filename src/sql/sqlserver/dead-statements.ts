import type { DeadStatements, OperatorStatements } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { controlStatements } from "./control-statements.js";
import { signatures } from "./signatures.js";

export const deadStatements = (n: QueueNames): DeadStatements => ({
  deadGroups: callProcedure(n, "dead groups", "DeadGroups", signatures.DeadGroups),
  countDead: callProcedure(n, "count dead", "CountDead", signatures.CountDead),
});

export const operatorStatements = (n: QueueNames): OperatorStatements => ({
  discard: callProcedure(n, "discard", "Discard", signatures.Discard),
  archive: callProcedure(n, "archive", "Archive", signatures.Archive),
  nextDead: callProcedure(n, "next dead", "NextDead", signatures.NextDead),
  addOperation: callProcedure(n, "add operation", "AddOperation", signatures.AddOperation),
  lockOperation: callProcedure(n, "lock operation", "LockOperation", signatures.LockOperation),
  moveOperation: callProcedure(n, "move operation", "MoveOperation", signatures.MoveOperation),
  operations: callProcedure(n, "operations", "Operations", signatures.Operations),
  ...controlStatements(n),
});
