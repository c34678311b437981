import type { LogFields, Logger } from "../../../src/base/logger.js";

export interface LogLine {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: LogFields;
}

/** A logger that appends what it is given to `lines`. */
export function recordingLogger(lines: LogLine[]): Logger {
  const at = (level: keyof Logger) => (message: string, fields: LogFields) => {
    lines.push({ level, message, fields });
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** The fields of the lines with this level and message. */
export const fieldsOf = (
  log: readonly LogLine[],
  level: LogLine["level"],
  message: string,
): readonly LogFields[] =>
  log.filter((line) => line.level === level && line.message === message).map((line) => line.fields);
