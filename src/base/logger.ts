import { InvalidArgumentError } from "../errors.js";

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

/** Adds fixed fields, such as the store's identifier, to every line. */
export function withFields(logger: Logger, fixed: LogFields): Logger {
  if (logger === silentLogger) return logger;
  return {
    debug: (message, fields) => logger.debug(message, { ...fixed, ...fields }),
    info: (message, fields) => logger.info(message, { ...fixed, ...fields }),
    warn: (message, fields) => logger.warn(message, { ...fixed, ...fields }),
    error: (message, fields) => logger.error(message, { ...fixed, ...fields }),
  };
}
