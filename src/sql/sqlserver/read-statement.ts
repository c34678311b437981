import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { unicodeLiteral } from "./expressions.js";
import { readFreely } from "./procedures/procedure.js";
import { type ParameterName, parameterType } from "./signatures.js";

/** A read of operators. It is no procedure: operators may read the tables, and a DBA has less to review. See docs/decisions/0029. */
export interface Read {
  /** For logs and errors, such as `dead groups`. */
  readonly name: string;
  readonly parameters: readonly ParameterName[];
  readonly body: string;
}

const typeOf = (n: QueueNames, one: ParameterName) => parameterType(n.kind, one).replace(" = null", "");

const declared = (n: QueueNames, { parameters }: Read): readonly string[] =>
  parameters.map((one) => `@${one} ${typeOf(n, one)}`);

const textOf = ({ parameters, body }: Read): string =>
  `set nocount on;
${parameters.includes("now") ? "set @now = coalesce(@now, sysutcdatetime());\n" : ""}${readFreely}
${body}`;

/**
 * The text is constant and its parameters have types, as those of a procedure, so its plan is reused. Each value is converted
 * to its type before the call. The isolation level that the text may set ends with it.
 */
export function readStatement(n: QueueNames, read: Read): SqlStatement {
  const typed = read.parameters.map((one) => `@typed_${one} ${typeOf(n, one)} = @${one}`);
  const values = read.parameters.map((one) => `@${one} = @typed_${one}`);
  return statement(
    read.name,
    `declare ${typed.join(", ")};
exec sp_executesql ${unicodeLiteral(textOf(read))}, ${unicodeLiteral(declared(n, read).join(", "))}, ${values.join(", ")}`,
  );
}

/** The same as a batch without values, to look at its plan. */
export const readBatch = (n: QueueNames, read: Read): string =>
  `declare ${declared(n, read).join(", ")};\n${textOf(read)}`;
