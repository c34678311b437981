/** Called with each problem that a check finds. */
export type Report = (problem: string) => void;

export function checkHeaderPart(
  part: { readonly header?: unknown; readonly separator?: unknown; readonly prefix?: unknown } | undefined,
  name: string,
  report: Report,
): void {
  if (!isHeaderNames(part?.header)) report(`${name}.header must be a header name`);
  checkText(part?.separator, `${name}.separator`, report);
  checkText(part?.prefix, `${name}.prefix`, report);
}

export function checkText(value: unknown, name: string, report: Report): void {
  if (value !== undefined && !isText(value)) report(`${name} must be a non-empty string`);
}

export function checkTrue(value: unknown, name: string, report: Report): void {
  if (value !== undefined && value !== true) report(`${name} must be true, or absent`);
}

export function checkTexts(value: unknown, name: string, report: Report): void {
  if (value !== undefined && !(Array.isArray(value) && value.every(isText)))
    report(`${name} must be a list of strings`);
}

export function checkOneOf(value: unknown, known: readonly string[], name: string, report: Report): void {
  if (value !== undefined && !known.includes(value as string))
    report(`${name} must be one of ${known.join(", ")}`);
}

export function refuseFields(value: object, known: readonly string[], name: string, report: Report): void {
  if (!isObject(value)) report(`${name} must be an object`);
  for (const field of Object.keys(value ?? {})) {
    if (!known.includes(field)) report(`${name} has an unknown field ${field}; known: ${known.join(", ")}`);
  }
}

export const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);
/** The value, or an object without fields for what is none. */
export const objectOf = (value: unknown): object => (isObject(value) ? value : {});
export const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
export const isHeaderName = (value: unknown): value is string =>
  typeof value === "string" && /^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(value);
/** One name, or several with `|` between them. */
const isHeaderNames = (value: unknown): value is string =>
  typeof value === "string" && value.split("|").every(isHeaderName);
/** Above all, a line break is not allowed. */
export const isHeaderValue = (text: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(text);
export const asList = <T>(value: T | readonly T[] | undefined): readonly T[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value as T];
