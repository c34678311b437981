import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import type { ParameterName } from "./signatures.js";

/** A missing hash comes as a null of type nvarchar, which must be converted to varbinary explicitly. */
const convertHash = "declare @bytes varbinary(max) = convert(varbinary(max), @hash);\n";

/** A statement that calls a procedure with the statement's parameters of the same names; `given` replaces some. */
export function callProcedure(
  n: QueueNames,
  name: string,
  procedure: string,
  parameters: readonly ParameterName[],
  given: Partial<Record<ParameterName, string>> = {},
): SqlStatement {
  const values = { hash: "@bytes", ...given };
  const list = parameters
    .map((parameter) => `@${parameter} = ${values[parameter] ?? `@${parameter}`}`)
    .join(", ");
  return statement(
    name,
    `${parameters.includes("hash") ? convertHash : ""}exec ${n.object(`_${procedure}`)} ${list}`,
  );
}
