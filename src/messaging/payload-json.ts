import { InvalidArgumentError } from "../errors.js";
import { wireLimits } from "./envelope.js";

/** What is being written: the way to it, and the objects that it is in. */
interface Place {
  readonly path: (string | number)[];
  readonly ancestors: Set<object>;
}

/** Thrown at the place that cannot be written, and caught where the path is known. */
class NotSerialisable extends Error {}

/**
 * Returns the JSON text of a payload. Refuses what `JSON.stringify` would throw at, leave out or change: circular
 * references, BigInts, functions, symbols, NaN, lone surrogates, Maps. The error names the path and never the value. A
 * member that is undefined is left out, as in `JSON.stringify`.
 */
export function serialisePayload(payload: unknown, name = "payload"): string {
  const place: Place = { path: [], ancestors: new Set() };
  try {
    return required(textOf(payload, "", place));
  } catch (error) {
    const isRefused = error instanceof NotSerialisable;
    const problem = isRefused ? error.message : "cannot be read: its getter or its toJSON threw an error";
    const options = isRefused ? undefined : { cause: error };
    throw new InvalidArgumentError(`${name}${pathText(place.path)} ${problem}. Send plain JSON.`, options);
  }
}

/** Returns undefined for undefined. */
function textOf(given: unknown, key: string, place: Place): string | undefined {
  const value = plainValue(given, key);
  switch (typeof value) {
    case "undefined":
      return undefined;
    case "boolean":
      return String(value);
    case "number":
      if (!Number.isFinite(value)) throw new NotSerialisable("is NaN or infinite");
      return JSON.stringify(value);
    case "string":
      return textOfString(value);
    case "object":
      return value === null ? "null" : textOfObject(value, place);
    default:
      throw new NotSerialisable(`is a ${typeof value}`);
  }
}

/** Applies toJSON, of a Date for example, once and with the key, as `JSON.stringify` does. */
function plainValue(given: unknown, key: string): unknown {
  if ((typeof given !== "object" || given === null) && typeof given !== "bigint") return given;
  const { toJSON } = given as { toJSON?: unknown };
  if (typeof toJSON !== "function") return given;
  const value: unknown = toJSON.call(given, key);
  if (value === undefined) throw new NotSerialisable("has a toJSON that returns undefined");
  if (value === null && given instanceof Date) throw new NotSerialisable("is an invalid Date");
  return value;
}

function textOfString(value: string): string {
  if (!value.isWellFormed()) throw new NotSerialisable("has a lone surrogate");
  return JSON.stringify(value);
}

function textOfObject(value: object, place: Place): string {
  const { path, ancestors } = place;
  if (ancestors.has(value)) throw new NotSerialisable("is a circular reference");
  if (path.length >= wireLimits.depth) {
    throw new NotSerialisable(`is nested deeper than ${wireLimits.depth} levels`);
  }
  ancestors.add(value);
  const text = Array.isArray(value) ? textOfArray(value, place) : textOfMembers(value, place);
  ancestors.delete(value);
  return text;
}

function textOfArray(values: readonly unknown[], place: Place): string {
  const texts: string[] = [];
  for (let index = 0; index < values.length; index++) {
    place.path.push(index);
    texts.push(required(textOf(values[index], String(index), place)));
    place.path.pop();
  }
  return `[${texts.join(",")}]`;
}

function textOfMembers(value: object, place: Place): string {
  // Maps, Sets, buffers and errors would become {} or lose what they are
  if (Object.prototype.toString.call(value) !== "[object Object]") {
    throw new NotSerialisable("is neither a plain object nor an array");
  }
  const texts: string[] = [];
  for (const key of Object.keys(value)) {
    place.path.push(key);
    const text = textOf((value as Readonly<Record<string, unknown>>)[key], key, place);
    if (text !== undefined) texts.push(`${textOfString(key)}:${text}`);
    place.path.pop();
  }
  return `{${texts.join(",")}}`;
}

function required(text: string | undefined): string {
  if (text === undefined) throw new NotSerialisable("is undefined");
  return text;
}

const maxPathLength = 200;

function pathText(path: readonly (string | number)[]): string {
  const text = path.map(stepText).join("");
  return text.length > maxPathLength ? `${text.slice(0, maxPathLength).toWellFormed()}…` : text;
}

const stepText = (step: string | number): string =>
  typeof step === "string" && /^[a-z_$][\w$]*$/i.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;

/** The part of a string that is read. */
export type JsonText = Pick<string, "length" | "charCodeAt" | "slice">;

export type ScanProblem =
  | "not a JSON object"
  | "not JSON"
  | "nested too deep"
  | "lone surrogate"
  | "too many members"
  | "unknown member"
  | "member twice";

/** Where a value ends. What is inside of it is left to `JSON.parse`. */
type End = number | ScanProblem;

const [quote, backslash, comma, colon, openBrace, closeBrace, openBracket, closeBracket, letterU] = [
  ...'"\\,:{}[]u',
].map((char) => char.charCodeAt(0));

interface ScanLimits {
  isKnown(name: string): boolean;
  readonly maxDepth: number;
  readonly mostMembers: number;
}

/**
 * Finds the members of the one object that the text consists of, each as its name and the text of its value. `JSON.parse`
 * returns neither that text nor duplicates. Every character is read at most a fixed number of times.
 */
export function scanMembers(
  text: JsonText,
  { isKnown, maxDepth, mostMembers }: ScanLimits,
): ReadonlyMap<string, string> | ScanProblem {
  const members = new Map<string, string>();
  let at = skipSpace(text, 0);
  if (text.charCodeAt(at) !== openBrace) return "not a JSON object";
  at = skipSpace(text, at + 1);
  let ended = text.charCodeAt(at) === closeBrace;
  while (!ended) {
    const nameEnd = text.charCodeAt(at) === quote ? endOfString(text, at) : "not JSON";
    if (typeof nameEnd === "string") return nameEnd;
    const name = parseJson(text.slice(at, nameEnd));
    if (typeof name !== "string") return "not JSON";
    if (!isKnown(name)) return "unknown member";
    if (members.has(name)) return "member twice";
    if (members.size === mostMembers) return "too many members";
    at = skipSpace(text, nameEnd);
    if (text.charCodeAt(at) !== colon) return "not JSON";
    at = skipSpace(text, at + 1);
    const end = endOfValue(text, at, maxDepth);
    if (typeof end === "string") return end;
    members.set(name, text.slice(at, end));
    at = skipSpace(text, end);
    ended = text.charCodeAt(at) === closeBrace;
    if (!ended && text.charCodeAt(at) !== comma) return "not JSON";
    if (!ended) at = skipSpace(text, at + 1);
  }
  return skipSpace(text, at + 1) === text.length ? members : "not JSON";
}

/** Returns why the text cannot be one value of JSON, of at most that depth and without white space around it. */
export function valueProblem(text: string, maxDepth: number): ScanProblem | undefined {
  if (!text.isWellFormed()) return "lone surrogate";
  const end = endOfValue(text, 0, maxDepth);
  if (typeof end === "string") return end;
  return end === text.length ? undefined : "not JSON";
}

/** Returns undefined for a text that is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function endOfValue(text: JsonText, from: number, maxDepth: number): End {
  let at = from;
  let depth = 0;
  do {
    const char = text.charCodeAt(at);
    if (char === quote) {
      const end = endOfString(text, at);
      if (typeof end === "string") return end;
      at = end;
    } else if (char === openBrace || char === openBracket) {
      depth++;
      if (depth > maxDepth) return "nested too deep";
      at++;
    } else if (depth > 0) {
      if (char === closeBrace || char === closeBracket) depth--;
      at++;
    } else {
      at = endOfScalar(text, at);
    }
  } while (depth > 0 && at < text.length);
  return depth > 0 || at === from ? "not JSON" : at;
}

/** The end of a number, or of true, false or null. */
function endOfScalar(text: JsonText, from: number): number {
  let at = from;
  while (at < text.length && !isSpace(text.charCodeAt(at)) && !isDelimiter(text.charCodeAt(at))) at++;
  return at;
}

function endOfString(text: JsonText, from: number): End {
  for (let at = from + 1; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === quote) return at + 1;
    if (char !== backslash) continue;
    const unit = escapedUnit(text, at);
    if (isLowSurrogate(unit)) return "lone surrogate";
    if (unit >= 0xd800 && unit <= 0xdbff) {
      at += 6;
      if (!isLowSurrogate(escapedUnit(text, at))) return "lone surrogate";
    }
    at++; // what is escaped may be a quote
  }
  return "not JSON";
}

/** Returns the code unit of an escape like \ud83d, or NaN for other escapes. */
function escapedUnit(text: JsonText, at: number): number {
  if (text.charCodeAt(at) !== backslash || text.charCodeAt(at + 1) !== letterU) return Number.NaN;
  return Number.parseInt(text.slice(at + 2, at + 6), 16);
}

const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

const isDelimiter = (char: number): boolean => char === comma || char === closeBrace || char === closeBracket;

const isSpace = (char: number): boolean => char === 0x20 || char === 0x0a || char === 0x0d || char === 0x09;

function skipSpace(text: JsonText, from: number): number {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}
