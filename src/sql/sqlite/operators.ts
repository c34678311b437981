import type { OperatorDialect } from "../dialect.js";
import { operatorStatements } from "./dead-statements.js";
import { operatorReadStatements } from "./operator-read-statements.js";

export const sqliteOperators: OperatorDialect = {
  changes: operatorStatements,
  reads: operatorReadStatements,
};
