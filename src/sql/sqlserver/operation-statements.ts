import type { OperatorStatements } from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import { type QueueNames, queueId } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { unicodeLiteral } from "./expressions.js";
import { operationsTable } from "./operations-table.js";
import { lockRow } from "./procedures/procedure.js";
import { columns } from "./procedures/rows.js";
import { type Read, readStatement } from "./read-statement.js";
import { signatures } from "./signatures.js";

const operation = columns("o", [
  "id",
  "started_at",
  "who",
  "action",
  "queue",
  "filter",
  "matched",
  "done",
  "last_seq",
  "ended_at",
  "resumed_by",
  "resumed_at",
]);

const readOperation = (n: QueueNames, hint = "") => `select ${operation}
from ${operationsTable(n.schema)} o${hint}
where o.id = @id and o.queue = ${unicodeLiteral(queueId(n))};`;

/** The unfinished first. */
const listOperations = (n: QueueNames) => `select top (@limit) ${operation}
from ${operationsTable(n.schema)} o
where o.queue = ${unicodeLiteral(queueId(n))} and (@id is null or o.id = @id)
order by case when o.ended_at is null then 0 else 1 end, o.started_at desc, o.id desc;`;

export const operationReads = (n: QueueNames) =>
  ({
    lockOperation: {
      name: "lock operation",
      parameters: ["id"],
      body: readOperation(n, ` with (${lockRow})`),
    },
    operations: { name: "operations", parameters: ["id", "limit"], body: listOperations(n) },
  }) satisfies Record<string, Read>;

/** Writes by a procedure, and reads what it has written. */
function writeOperation(
  n: QueueNames,
  name: string,
  procedure: "AddOperation" | "MoveOperation",
): SqlStatement {
  const { text } = callProcedure(n, name, procedure, signatures[procedure]);
  return statement(name, `${text};\n${readOperation(n)}`);
}

export const operationStatements = (
  n: QueueNames,
): Pick<OperatorStatements, "addOperation" | "lockOperation" | "moveOperation" | "operations"> => {
  const { lockOperation, operations } = operationReads(n);
  return {
    addOperation: writeOperation(n, "add operation", "AddOperation"),
    lockOperation: readStatement(n, lockOperation),
    moveOperation: writeOperation(n, "move operation", "MoveOperation"),
    operations: readStatement(n, operations),
  };
};
