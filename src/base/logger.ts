export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** The four levels the package writes to. `console`, pino and the clouds' loggers fit with one line. */
export interface Logger {
  debug(message: string, fields: LogFields): void;
  info(message: string, fields: LogFields): void;
  warn(message: string, fields: LogFields): void;
  error(message: string, fields: LogFields): void;
}

const nothing = (): void => {};

export const silentLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** Drops what a logger throws: a broken logger must not fail a message. */
export function guardedLogger(logger: Logger): Logger {
  if (logger === silentLogger) return logger;
  const guard =
    (level: keyof Logger) =>
    (message: string, fields: LogFields): void => {
      try {
        logger[level](message, fields);
      } catch {
        // it cannot be reported anywhere
      }
    };
  return { debug: guard("debug"), info: guard("info"), warn: guard("warn"), error: guard("error") };
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
