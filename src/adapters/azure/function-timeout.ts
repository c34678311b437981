import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { AzureSettings } from "../../config/azure-settings.js";
import { InvalidArgumentError } from "../../errors.js";

const minute = 60_000;
/** The default of the Consumption plan, the shortest of all plans. */
const defaultMs = 5 * minute;
/** A run never takes longer, because the platform gives running functions 10 minutes before it removes an instance. */
const longestMs = 10 * minute;
/** The host's clock starts before ours, and its time-out kills the process with all functions that run in it. */
const marginMs = 5_000;

/**
 * How long a run may take: `functionTimeout` of host.json minus a margin. The host enforces it, but does not pass it to
 * the function.
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
  // The host ignores the name's case.
  const [, timeout] =
    Object.entries(parseHostJson(text, file)).find(([name]) => name.toLowerCase() === "functiontimeout") ??
    [];
  return timeout === undefined || timeout === null ? undefined : String(timeout);
}

function parseHostJson(text: string, file: string): object {
  try {
    return Object(JSON.parse(text.replace(/^\uFEFF/, "")));
  } catch (cause) {
    throw new InvalidArgumentError(
      `${file} is not plain JSON, and functionTimeout is read from it. Remove comments.`,
      {
        cause,
      },
    );
  }
}
