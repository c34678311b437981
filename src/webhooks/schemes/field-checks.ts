/** Called with each problem that a check finds. */
export type Report = (problem: string) => void;

/** Reports what is wrong with a value that is given. */
export type Check = (value: unknown, name: string, report: Report) => void;

type Checks = Readonly<Record<string, Check>>;

/** Checks the fields that are given, and refuses those that have no check. */
export function checkFields(value: unknown, name: string, checks: Checks, report: Report): void {
  refuseFields(value, Object.keys(checks), name, report);
  for (const [field, given] of Object.entries(objectOf(value))) {
    if (given !== undefined && Object.hasOwn(checks, field))
      checks[field]!(given, `${name}.${field}`, report);
  }
}

export function refuseFields(value: unknown, known: readonly string[], name: string, report: Report): void {
  if (!isObject(value)) report(`${name} must be an object`);
  for (const field of Object.keys(value ?? {})) {
    if (!known.includes(field)) report(`${name} has an unknown field ${field}; known: ${known.join(", ")}`);
  }
}

export const fields =
  (checks: Checks): Check =>
  (value, name, report) =>
    checkFields(value, name, checks, report);

/** For a field that is checked elsewhere, such as a template. */
export const anything: Check = () => {};

export const text: Check = (value, name, report) => {
  if (!isText(value)) report(`${name} must be a non-empty string`);
};

export const texts: Check = (value, name, report) => {
  if (!(Array.isArray(value) && value.every(isText))) report(`${name} must be a list of strings`);
};

export const onlyTrue: Check = (value, name, report) => {
  if (value !== true) report(`${name} must be true, or absent`);
};

export const oneOf =
  (known: readonly string[]): Check =>
  (value, name, report) => {
    if (!known.includes(value as string)) report(`${name} must be one of ${known.join(", ")}`);
  };

export const numberUpTo =
  (most: number): Check =>
  (value, name, report) => {
    if (!(typeof value === "number" && value > 0 && value <= most))
      report(`${name} must be more than 0 and at most ${most}`);
  };

/** One name, or several with `|` between them. */
export const headerNames: Check = (value, name, report) => {
  if (!(typeof value === "string" && value.split("|").every(isHeaderName)))
    report(`${name} must be a header name`);
};

export const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);
/** The value, or an object without fields for what is none. */
export const objectOf = (value: unknown): object => (isObject(value) ? value : {});
export const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
export const isHeaderName = (value: unknown): value is string =>
  typeof value === "string" && /^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(value);
/** Above all, a line break is not allowed. */
export const isHeaderValue = (value: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
export const asList = <T>(value: T | readonly T[] | undefined): readonly T[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value as T];
