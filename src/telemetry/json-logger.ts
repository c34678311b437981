import { jsonLine } from "../base/json-line.js";
import type { LogFields, Logger } from "../base/logger.js";

export const logLevels = ["debug", "info", "warn", "error", "silent"] as const;
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
