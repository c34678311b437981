import type { Filter } from "../api.js";
import { count, duration, number } from "../format.js";

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
