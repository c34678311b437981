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

export interface ScanLimits {
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
