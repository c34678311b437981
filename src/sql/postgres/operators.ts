import type { OperatorDialect } from "../dialect.js";
import { operatorStatements } from "./dead-statements.js";
import { operatorReadStatements } from "./operator-read-statements.js";

export const postgresOperators: OperatorDialect = {
  changes: operatorStatements,
  reads: operatorReadStatements,
};
