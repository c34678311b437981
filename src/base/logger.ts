import { InvalidArgumentError } from "../errors.js";

/** The fields of a log line: ids and numbers, never a payload. */
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** The four levels the package writes to. `console`, winston, Azure's context and Powertools' logger fit as they are. */
export interface Logger {
  debug(message: string, fields: LogFields): void;
  info(message: string, fields: LogFields): void;
  warn(message: string, fields: LogFields): void;
  error(message: string, fields: LogFields): void;
}

/** A logger, pino's too, or `false` for none. Without this option warnings and errors go to the console. */
export type LoggerOption = Logger | false;

type Level = keyof Logger;

const nothing = (): void => {};

export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** A message that dies unseen is worse than a line too many on the standard error. */
const consoleWarnings: Logger = {
  ...silentLogger,
  warn: (message, fields) => console.warn(`oncebox: ${message}`, fields),
  error: (message, fields) => console.error(`oncebox: ${message}`, fields),
};

/** The logger of an option. It drops what the given one throws: a broken logger must not fail a message. */
export function loggerOf(given: LoggerOption | undefined): Logger {
  if (given === false) return silentLogger;
  const problem = loggerProblem(given);
  if (problem !== undefined) throw new InvalidArgumentError(`${problem}.`);
  const logger = given ?? consoleWarnings;
  const write = takesFieldsFirst(logger)
    ? (level: Level, message: string, fields: LogFields) => logger[level](fields, message)
    : (level: Level, message: string, fields: LogFields) => logger[level](message, fields);
  const guard = (level: Level) => {
    if (!writes(logger, level)) return nothing;
    return (message: string, fields: LogFields): void => {
      try {
        write(level, message, fields);
      } catch {
        // it cannot be reported anywhere
      }
    };
  };
  return { debug: guard("debug"), info: guard("info"), warn: guard("warn"), error: guard("error") };
}

/** What is wrong with the option `logger`, if anything is. */
export function loggerProblem(given: unknown): string | undefined {
  if (given === undefined || given === false) return undefined;
  const has = (level: string) =>
    typeof (given as Readonly<Record<string, unknown>> | null)?.[level] === "function";
  return ["debug", "info", "warn", "error"].every(has)
    ? undefined
    : "logger must have the functions debug, info, warn and error, or be false";
}

/** Whether lines of this level go anywhere. */
export const writes = (logger: Logger, level: Level): boolean => logger[level] !== nothing;

interface FieldsFirst extends Record<Level, (fields: LogFields, message: string) => void> {}

/** pino and bunyan take the fields first, and would drop them in the second place. Only they have such children. */
function takesFieldsFirst(logger: object): logger is FieldsFirst {
  const { child, bindings, addStream } = logger as Readonly<Record<string, unknown>>;
  return typeof child === "function" && (typeof bindings === "function" || typeof addStream === "function");
}

/** Adds fixed fields, such as the store's identifier, to every line that goes anywhere. */
export function withFields(logger: Logger, fixed: LogFields): Logger {
  const adding = (level: Level) =>
    writes(logger, level)
      ? (message: string, fields: LogFields): void => logger[level](message, { ...fixed, ...fields })
      : nothing;
  return { debug: adding("debug"), info: adding("info"), warn: adding("warn"), error: adding("error") };
}

export const logLevels = ["debug", "info", "warn", "error", "silent"] as const;
/** The least important lines that are written. */
export type LogLevel = (typeof logLevels)[number];
type WrittenLevel = Exclude<LogLevel, "silent">;

/**
 * Writes one JSON object per line, which both clouds' log stores parse. The package's own log lines have ids and counts
 * and never a payload. Control characters in an id are escaped.
 */
export function jsonLogger(
  level: LogLevel = "info",
  write: (line: string, level: WrittenLevel) => void = (line) => process.stdout.write(`${line}\n`),
): Logger {
  const lowest = logLevels.indexOf(level);
  const at =
    (name: WrittenLevel) =>
    (message: string, fields: LogFields): void => {
      if (logLevels.indexOf(name) < lowest) return;
      write(jsonLine({ time: new Date().toISOString(), level: name, message, ...fields }), name);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** These have a text of the handler's own. */
const textOfHandler = ["ONCEBOX_PERMANENT_FAILURE", "ONCEBOX_RETRY_AFTER"];

/**
 * The part of an error that may be logged. Errors of this package quote no payload and no secret. A message of any other
 * error may quote parameters or a connection string, so only its name and code are returned.
 */
export function safeReason(error: unknown): string {
  const { code, message } = (error ?? {}) as Record<string, unknown>;
  const isOwn = typeof code === "string" && code.startsWith("ONCEBOX_") && !textOfHandler.includes(code);
  return isOwn ? String(message) : nameAndCode(error);
}

/** What a log line says of an error that is not this package's own. */
interface LoggedError {
  /** Its name and its code. */
  readonly error: string;
  /** Where it was thrown: function names, files and lines. */
  readonly stack?: string;
}

const maxFrames = 10;
const stackFrame = /^\s+at .{1,500}$/;
/** A name or a code is a word. Anything else may be a text that was put in its place. */
const plainWord = /^[\w.$:-]{1,100}$/;

/**
 * Name, code and stack frames of what was thrown. Its message is left out: it may quote a payload, a parameter or a secret.
 * The message of a failed handler is kept in `lastError`.
 */
export function loggedError(error: unknown): LoggedError {
  try {
    const stack = framesOf(error);
    return { error: nameAndCode(error), ...(stack === "" ? {} : { stack }) };
  } catch {
    return { error: "Error" }; // one of its getters throws
  }
}

/** And those of its causes: an ORM's error has the database's there. */
export function nameAndCode(error: unknown, more = 3): string {
  // SQL Server's errors have a number, not a code
  const { name = "Error", code, number, cause } = (error ?? {}) as Record<string, unknown>;
  const [first = "Error", ...rest] = [name, code, number].filter(
    (part) => typeof part === "number" || (typeof part === "string" && plainWord.test(part)),
  );
  const own = [first, ...rest].join(" ");
  return cause instanceof Error && more > 0 ? `${own}, caused by ${nameAndCode(cause, more - 1)}` : own;
}

/**
 * The frames are behind the message, which may have lines that look like frames. A stack that does not have the message
 * was written before the message was changed. Then nobody knows where the frames begin.
 */
function framesOf(error: unknown): string {
  const { stack, message } = (error ?? {}) as { readonly stack?: unknown; readonly message?: unknown };
  if (typeof stack !== "string" || typeof message !== "string") return "";
  const at = stack.indexOf(message);
  if (at < 0) return "";
  const lines = stack.slice(at + message.length, at + message.length + 10_000).split("\n", maxFrames + 1);
  return lines
    .slice(1)
    .filter((line) => stackFrame.test(line))
    .map((line) => line.trim())
    .join(", ");
}

/** Most texts have nothing to escape. */
const printable = /^[ -~\n\t]*$/;

/**
 * Control characters but line breaks and tabs, and characters that are not seen or that turn the writing direction. In a
 * function of its own, which is compiled at its first call: V8 then reads the sets of Unicode, which takes 0.4 ms.
 */
const controlCharacters = () => /[^\P{Cc}\n\t]|[\p{Cf}\u2028\u2029]/gu;

/**
 * Writes such characters as `\u202e`. A sender chooses ids and topics: in a terminal or a viewer of logs they could clear the
 * screen, forge a line or show a text backwards. In JSON the escaped text means the same.
 */
export const escapeControls = (text: string): string =>
  printable.test(text) ? text : text.replace(controlCharacters(), escapedCharacter);

/** One escape for each half of a pair, as JSON has it. */
const escapedCharacter = (character: string): string =>
  character
    .split("")
    .map((half) => `\\u${half.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");

/** A value as one line of JSON that is safe to show. */
export const jsonLine = (value: unknown): string => escapeControls(JSON.stringify(value));
