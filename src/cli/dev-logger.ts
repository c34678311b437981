import type { Logger } from "../base/logger.js";
import { jsonLogger, type LogLevel } from "../telemetry/json-logger.js";
import type { CommandInput } from "./command.js";

/** Readable lines on a terminal, which has a width. A file, another program and `--json` get JSON. */
export function devLogger({ values, terminal }: CommandInput, level: LogLevel): Logger {
  const isForPeople = terminal.columns !== undefined && values.json !== true;
  return jsonLogger(level, (line) => terminal.out(isForPeople ? readableLine(line) : line));
}

/** Time of day, level, message, and the other fields as `name=value`. */
function readableLine(json: string): string {
  const { time, level, message, ...fields } = JSON.parse(json) as Readonly<Record<string, unknown>>;
  const shown = Object.entries(fields)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}=${plain(value)}`);
  const head = `${String(time).slice(11, 23)} ${String(level).padEnd(5)} ${message}`;
  return shown.length === 0 ? head : `${head}  ${shown.join(" ")}`;
}

/** Quoted only where it would run into the next field. */
const plain = (value: unknown): string =>
  typeof value === "string" && value !== "" && !/[\s="]/.test(value) ? value : JSON.stringify(value);
