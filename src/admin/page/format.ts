import type { Filter } from "./api.js";

const numbers = new Intl.NumberFormat("en-GB");
const moments = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const clocks = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export const number = (value: number): string => numbers.format(value);

/** `1 message`, `2 messages`. */
export const count = (value: number, what: string): string =>
  `${number(value)} ${what}${value === 1 ? "" : "s"}`;

/** In the reader's time zone. */
export const moment = (iso: string): string => moments.format(new Date(iso));
export const clock = (at: Date): string => clocks.format(at);

const units: readonly (readonly [name: string, ms: number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
];

/** `42 s`, `3 min 5 s`, `2 d 4 h`: the two largest units. */
export function duration(ms: number): string {
  const first = units.findIndex(([, size]) => ms >= size);
  if (first < 0) return `${Math.max(0, Math.round(ms))} ms`;
  const [name, size] = units[first]!;
  const whole = `${Math.floor(ms / size)} ${name}`;
  const next = units[first + 1];
  const rest = next === undefined ? 0 : Math.floor((ms % size) / next[1]);
  return rest === 0 ? whole : `${whole} ${rest} ${next![0]}`;
}

/** `5 min ago`, `in 30 s`: the largest unit is enough. */
export function ago(iso: string): string {
  const ms = Date.now() - new Date(iso).getTime();
  if (Math.abs(ms) < 1_000) return "just now";
  const [name, size] = units.find(([, one]) => Math.abs(ms) >= one)!;
  const whole = `${Math.floor(Math.abs(ms) / size)} ${name}`;
  return ms > 0 ? `${whole} ago` : `in ${whole}`;
}

const names: Readonly<Record<keyof Filter, string>> = {
  topic: "topic",
  source: "source",
  error: "error contains",
  errorGroup: "group of errors",
  olderThanMs: "older than",
  newerThanMs: "newer than",
};

/** What a filter says, one text per condition. Records of operations also say which messages were named, and the rate of a limit. */
export const conditionTexts = (filter: Readonly<Record<string, unknown>>): readonly string[] =>
  Object.entries(filter)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => {
      if (name === "keys") return count((value as readonly unknown[]).length, "selected message");
      if (name === "perSecond") return `${number(Number(value))} per second`;
      const text = name.endsWith("Ms") ? duration(Number(value)) : textOf(value);
      return `${names[name as keyof Filter] ?? name}: ${text}`;
    });

const textOf = (value: unknown): string =>
  typeof value === "object" && value !== null ? Object.values(value).join("/") : String(value);
