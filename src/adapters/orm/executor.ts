import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import type { Dialect } from "../../sql/dialect.js";
import type { SqlExecutor, SqlParams, SqlRow } from "../../sql/driver.js";
import { toPositional } from "../../sql/named-parameters.js";
import { runSteps } from "./sqlite-steps.js";

/** How a library writes placeholders for a database, and runs a text with its values in that order. */
export interface TextRunner {
  run(text: string, values: readonly unknown[]): Promise<readonly SqlRow[]>;
  /** Where `$1`, `@p1` and `?` will not do: the library's own way, for PostgreSQL and SQL Server. */
  readonly placeholder?: (index: number, dialect: Dialect["name"]) => string;
}

/** A caller's transaction in another library as what the stores take. */
export function executorOf(dialect: Dialect["name"], runner: TextRunner): SqlExecutor {
  return {
    async query(statement, params) {
      try {
        if (dialect === "sqlite")
          return await runSteps((text, values) => runner.run(text, values), statement, params);
        const text = statement.steps[0]!;
        const { text: bound, names } =
          dialect === "postgres" ? postgresText(text, runner) : sqlServerText(text, params, runner);
        return await runner.run(
          bound,
          names.map((name) => bindable(params[name])),
        );
      } catch (error) {
        throw withoutValues(error, statement.name);
      }
    },
  };
}

/** Some libraries write the values into their errors, and a payload must not get into a caller's log with them. */
function withoutValues(error: unknown, what: string): Error {
  const { code, errcode, number } = driverError(error);
  const codes = Object.fromEntries(
    Object.entries({ code, errcode, number }).filter(([, value]) => value !== undefined),
  );
  const shown = Object.values(codes)[0];
  return Object.assign(
    new InvalidOperationError(`The statement "${what}" failed${shown === undefined ? "" : ` (${shown})`}.`),
    codes,
  );
}

interface DriverError {
  readonly code?: unknown;
  readonly errcode?: unknown;
  readonly number?: unknown;
}

/** The one that the database's driver threw, which libraries wrap. */
function driverError(error: unknown): DriverError {
  const {
    cause,
    driverError: inner,
    meta,
  } = (error ?? {}) as { cause?: unknown; driverError?: unknown; meta?: unknown };
  const within = inner ?? cause ?? meta;
  return typeof within === "object" && within !== null ? driverError(within) : ((error ?? {}) as DriverError);
}

interface BoundText {
  readonly text: string;
  readonly names: readonly string[];
}

const bindable = (value: SqlParams[string] | undefined): unknown =>
  value instanceof Uint8Array
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : (value ?? null);

function postgresText(text: string, { placeholder }: TextRunner): BoundText {
  const { text: numbered, order } = toPositional(text);
  if (placeholder === undefined) return { text: numbered, names: order };
  // a library that writes its own placeholders gets each occurrence in turn
  const names: string[] = [];
  const own = numbered.replace(literalsAndNumbers, (whole, number?: string) => {
    if (number === undefined) return whole;
    names.push(order[Number(number) - 1]!);
    return placeholder(names.length, "postgres");
  });
  return { text: own, names };
}

const literalsAndNumbers = /"(?:[^"]|"")*"|'(?:[^']|'')*'|--[^\n]*|\$(\d+)/g;
const literalsAndVariables =
  /\[(?:[^\]]|\]\])*\]|"(?:[^"]|"")*"|'(?:[^']|'')*'|--[^\n]*|@@\w+|@([a-z_][a-z0-9_]*)/gi;

/** Variables of the text's own look the same as parameters: only what was given is a parameter. */
function sqlServerText(
  text: string,
  params: SqlParams,
  { placeholder = (n) => `@p${n}` }: TextRunner,
): BoundText {
  const names: string[] = [];
  const declared: string[] = [];
  for (const [, name] of text.matchAll(literalsAndVariables))
    if (name !== undefined && Object.hasOwn(params, name) && !names.includes(name)) names.push(name);
  const types = names.map((name, index) => {
    declared.push(`@${name} ${typeOf(params[name])} = ${placeholder(index + 1, "sqlserver")}`);
    return name;
  });
  return { text: declared.length === 0 ? text : `declare ${declared.join(", ")};\n${text}`, names: types };
}

const typeOf = (value: SqlParams[string] | undefined): string => {
  if (value instanceof Uint8Array) return "varbinary(max)";
  if (typeof value === "boolean") return "bit";
  if (typeof value === "number") return Number.isInteger(value) ? "bigint" : "float";
  return "nvarchar(max)";
};

const dialects: readonly string[] = ["postgres", "sqlite", "sqlserver"];

export function requireDialect(value: unknown, what: string): Dialect["name"] {
  if (dialects.includes(value as string)) return value as Dialect["name"];
  throw new InvalidArgumentError(
    `${what} cannot tell which database the transaction is on. Say so: ${what}(transaction, "postgres"), "sqlserver" or "sqlite".`,
  );
}
