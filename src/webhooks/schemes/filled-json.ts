import type { JsonTemplate } from "./scheme.js";
import type { TemplatePart } from "./template.js";

type Fill = (parts: readonly TemplatePart[]) => string | undefined;

/** Returns the JSON with its templates filled in, or undefined when a value is missing. */
export type FilledJson = (fill: Fill) => unknown;

/** Parses the templates of an answer. Numbers, booleans and null are sent as they are. */
export function checkJson(
  template: JsonTemplate,
  parse: (template: unknown) => readonly TemplatePart[],
): FilledJson {
  if (typeof template === "string") {
    const parts = parse(template);
    return (fill) => fill(parts);
  }
  if (typeof template !== "object" || template === null) return () => template;
  const members = Object.entries(template).map(([name, value]) => [name, checkJson(value, parse)] as const);
  return (fill) => {
    const filled = members.map(([name, member]) => [name, member(fill)] as const);
    if (filled.some(([, value]) => value === undefined)) return undefined;
    return Array.isArray(template) ? filled.map(([, value]) => value) : Object.fromEntries(filled);
  };
}
