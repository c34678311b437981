import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { AzureSettings } from "../../config/azure-settings.js";
import { InvalidArgumentError } from "../../errors.js";

const minute = 60_000;
/** The shortest of any plan's, Consumption's. */
const defaultMs = 5 * minute;
/** However long a function may run: the platform gives running functions 10 minutes before it takes an instance away. */
const longestMs = 10 * minute;
/** The host's clock starts before ours, and its time-out kills the whole process with all that runs in it. */
const marginMs = 5_000;

/**
 * How long a run may take: host.json's `functionTimeout`, which the host enforces and tells nobody, less a margin.
 */
export function runTimeMs(settings: Pick<AzureSettings, "functionTimeout" | "appFolder">): number {
  const text = settings.functionTimeout ?? functionTimeoutOf(join(settings.appFolder ?? "", "host.json"));
  const timeoutMs = Math.min(text === undefined ? defaultMs : parseTimeout(text), longestMs);
  return timeoutMs - Math.min(marginMs, timeoutMs / 10);
}

/** `hh:mm:ss`, `d.hh:mm:ss`, or -1 for no limit. */
export function parseTimeout(text: string): number {
  if (text === "-1") return Number.POSITIVE_INFINITY;
  const match = /^(?:(\d+)\.)?(\d{1,2}):(\d{1,2}):(\d{1,2}(?:\.\d+)?)$/.exec(text);
  const [days = 0, hours = 0, minutes = 0, seconds = 0] = (match ?? [])
    .slice(1)
    .map((part) => Number(part ?? 0));
  const ms = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000;
  if (!(ms > 0)) {
    throw new InvalidArgumentError(
      `functionTimeout in host.json must be a time like "00:05:00", or "-1", not ${JSON.stringify(text)}.`,
    );
  }
  return ms;
}

function functionTimeoutOf(file: string): string | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  // The host takes the name in any case.
  const [, timeout] =
    Object.entries(parsed(text, file)).find(([name]) => name.toLowerCase() === "functiontimeout") ?? [];
  return timeout === undefined || timeout === null ? undefined : String(timeout);
}

function parsed(text: string, file: string): object {
  try {
    return Object(JSON.parse(text.replace(/^\uFEFF/, "")));
  } catch (cause) {
    throw new InvalidArgumentError(
      `${file} is not plain JSON: the time-out is read from it. Remove comments.`,
      {
        cause,
      },
    );
  }
}
