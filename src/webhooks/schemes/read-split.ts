import type { Report } from "./field-checks.js";

/** Where a body has the list of events. */
export interface CheckedSplit {
  /** The form's field with the JSON; undefined where the body is the JSON. */
  readonly field: string | undefined;
  /** The steps to the list. A `*` goes into each item of a list. Empty where the JSON itself is the list. */
  readonly path: readonly string[];
}

export function readSplit(split: unknown, report: Report): CheckedSplit | undefined {
  if (split === undefined) return undefined;
  const [, kind, name = ""] = /^\{(json|form):([^{}]*)\}$/.exec(String(split)) ?? [];
  if (kind === undefined || (kind === "form" && name === "")) {
    report("split must be {json:path}, {json:} for the whole body, or {form:name}");
    return undefined;
  }
  if (kind === "form") return { field: name, path: [] };
  return { field: undefined, path: name === "" ? [] : name.split(".") };
}
