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

const declared = (n: QueueNames, { parameters }: Read): readonly string[] =>
  parameters.map((one) => `@${one} ${parameterType(n.kind, one).replace(" = null", "")}`);

const textOf = ({ parameters, body }: Read): string =>
  `set nocount on;
${parameters.includes("now") ? "set @now = coalesce(@now, sysutcdatetime());\n" : ""}${readFreely}
${body}`;

/**
 * The text is constant and its parameters have types, as those of a procedure, so its plan is reused. The isolation level that it
 * may set ends with it.
 */
export function readStatement(n: QueueNames, read: Read): SqlStatement {
  const types = unicodeLiteral(declared(n, read).join(", "));
  const values = read.parameters.map((one) => `@${one} = @${one}`).join(", ");
  return statement(read.name, `exec sp_executesql ${unicodeLiteral(textOf(read))}, ${types}, ${values}`);
}

/** The same as a batch without values, to look at its plan. */
export const readBatch = (n: QueueNames, read: Read): string =>
  `declare ${declared(n, read).join(", ")};\n${textOf(read)}`;
