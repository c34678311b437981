import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import type { ParameterName } from "./signatures.js";

/** Calls a procedure with the parameters of the same names; `given` says otherwise for some. */
export function call(
  n: QueueNames,
  name: string,
  procedure: string,
  parameters: readonly ParameterName[],
  given: Partial<Record<ParameterName, string>> = {},
): SqlStatement {
  const list = parameters
    .map((parameter) => `@${parameter} = ${given[parameter] ?? `@${parameter}`}`)
    .join(", ");
  return statement(name, `exec ${n.object(`_${procedure}`)} ${list}`);
}

/** `@bytes` is the hash. An absent one comes as a null of type nvarchar, which becomes no varbinary unless it is converted. */
export const withHash = (called: SqlStatement): SqlStatement =>
  statement(
    called.name,
    `declare @bytes varbinary(max) = convert(varbinary(max), @hash);
${called.text}`,
  );
