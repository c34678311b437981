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

/** A logger that throws must not cost a message: what it throws is dropped. */
export function guardedLogger(logger: Logger): Logger {
  if (logger === silentLogger) return logger;
  const guard =
    (level: keyof Logger) =>
    (message: string, fields: LogFields): void => {
      try {
        logger[level](message, fields);
      } catch {
        // there is nowhere left to report it
      }
    };
  return { debug: guard("debug"), info: guard("info"), warn: guard("warn"), error: guard("error") };
}

/** Adds the same fields (the store's identifier, say) to every line. */
export function withFields(logger: Logger, fixed: LogFields): Logger {
  if (logger === silentLogger) return logger; // nothing to put together for nobody
  return {
    debug: (message, fields) => logger.debug(message, { ...fixed, ...fields }),
    info: (message, fields) => logger.info(message, { ...fixed, ...fields }),
    warn: (message, fields) => logger.warn(message, { ...fixed, ...fields }),
    error: (message, fields) => logger.error(message, { ...fixed, ...fields }),
  };
}
