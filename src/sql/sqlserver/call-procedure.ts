import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import type { ParameterName } from "./signatures.js";

/** What to pass instead of the statement's parameter of the same name. */
type Given = Partial<Record<ParameterName, string>>;

const execText = (n: QueueNames, procedure: string, parameters: readonly ParameterName[], given: Given) =>
  `exec ${n.object(`_${procedure}`)} ${parameters
    .map((parameter) => `@${parameter} = ${given[parameter] ?? `@${parameter}`}`)
    .join(", ")}`;

/** A statement that calls a procedure with the statement's parameters of the same names. */
export const callProcedure = (
  n: QueueNames,
  name: string,
  procedure: string,
  parameters: readonly ParameterName[],
  given: Given = {},
): SqlStatement => statement(name, execText(n, procedure, parameters, given));

/** The same with a hash. A missing hash comes as a null of type nvarchar, which must be converted to varbinary explicitly. */
export const callProcedureWithHash = (
  n: QueueNames,
  name: string,
  procedure: string,
  parameters: readonly ParameterName[],
  given: Given = {},
): SqlStatement =>
  statement(
    name,
    `declare @bytes varbinary(max) = convert(varbinary(max), @hash);
${execText(n, procedure, parameters, { ...given, hash: "@bytes" })}`,
  );
