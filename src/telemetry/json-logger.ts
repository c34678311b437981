import type { LogFields, Logger } from "../base/logger.js";

export const logLevels = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];
type WrittenLevel = Exclude<LogLevel, "silent">;

/**
 * One JSON object per line, which both clouds' log stores take apart by themselves. What is written comes from the
 * package's own messages: ids, counts, never a payload.
 */
export function jsonLogger(
  level: LogLevel = "info",
  write: (line: string, level: WrittenLevel) => void = (line) => process.stdout.write(`${line}\n`),
): Logger {
  const least = logLevels.indexOf(level);
  const at =
    (name: WrittenLevel) =>
    (message: string, fields: LogFields): void => {
      if (logLevels.indexOf(name) < least) return;
      write(JSON.stringify({ time: new Date().toISOString(), level: name, message, ...fields }), name);
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
