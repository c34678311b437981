import { longestTimerMs } from "../base/async.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import type { WithData } from "./message.js";
import { isLimit, limitRule, longestMs } from "./retry-policy.js";

/** Characters (UTF-16 code units, as SQL Server counts) that ids, sources and topics may have. */
export const maxNameLength = 255;

/** A batch above this makes SQL Server escalate to a table lock (it starts at about 5,000 locks). */
const maxBatchSize = 1_000;

/** Refuses what `nameProblem` finds. */
export function requireName(value: unknown, name: string): asserts value is string {
  const problem = nameProblem(value);
  if (problem !== undefined) throw new InvalidArgumentError(`${name} ${problem}`);
}

/**
 * Returns what is wrong with a name. Refuses what databases store differently: NUL (PostgreSQL cannot store it), lone
 * surrogates (drivers turn them into U+FFFD), and a trailing space (SQL Server ignores it in comparisons, so two ids would
 * become one).
 */
export function nameProblem(value: unknown): string | undefined {
  if (typeof value !== "string" || value === "") return "must be a non-empty string.";
  if (value.length > maxNameLength) {
    return `has ${value.length} characters; at most ${maxNameLength} can be stored. Hash a longer one.`;
  }
  if (value.includes("\0") || !value.isWellFormed()) {
    return "must be well-formed Unicode without NUL characters.";
  }
  if (value.endsWith(" ")) {
    return "must not end with a space: SQL Server would ignore it when comparing.";
  }
  return undefined;
}

/** A topic, or the beginning of topics with a star. Elsewhere a star would look as if it matched and never would. */
export function requirePattern(pattern: unknown, name: string): asserts pattern is string {
  requireName(pattern, name);
  if (pattern.slice(0, -1).includes("*"))
    throw new InvalidArgumentError(`${name} may have a * only at its end: ${JSON.stringify(pattern)}.`);
}

/** Like requireName. An empty string counts as absent. */
export function optionalName(value: unknown, name: string): string | null {
  if (value === undefined || value === null || value === "") return null;
  requireName(value, name);
  return value;
}

/** Like requireName. An empty key is refused: its messages would have no order, or be enqueued twice. */
export function optionalKey(value: unknown, name: string): string | null {
  if (value === undefined || value === null) return null;
  requireName(value, name);
  return value;
}

export function requirePayload(value: unknown): asserts value is string {
  if (typeof value !== "string") {
    throw new InvalidArgumentError(
      "payload must be a string (it may be empty); give an object as data, which is stored as JSON.",
    );
  }
  if (!value.isWellFormed()) {
    throw new InvalidArgumentError("payload must be well-formed Unicode: a lone surrogate cannot be stored.");
  }
}

/** The message with its data as the payload. */
export function withPayload<Message extends { readonly payload: string }>(
  message: WithData<Message>,
): Message {
  if (Object(message) !== message || !("data" in message)) return message as Message; // its check says what is wrong
  const { data, payload, ...rest } = message as unknown as {
    readonly data: unknown;
    readonly payload?: string;
  };
  if (payload !== undefined) throw new InvalidArgumentError("Give payload or data, not both.");
  return { ...rest, payload: asJson(data) } as unknown as Message;
}

function asJson(data: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(data);
  } catch (error) {
    const reason =
      error instanceof TypeError && /circular/i.test(error.message) ? "it is circular" : "see cause";
    throw new InvalidArgumentError(`data cannot be written as JSON: ${reason}.`, { cause: error });
  }
  if (text === undefined)
    throw new InvalidArgumentError(`data cannot be written as JSON: it is ${typeof data}.`);
  return text;
}

/** A hash as it is stored: `sha256:` and hexadecimal digits, or only the digits of bytes whose algorithm is not said. */
export function optionalHash(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (typeof value !== "string" || !/^[a-z0-9][a-z0-9_-]{0,31}:([0-9a-f]{2})+$/i.test(value))
    throw new InvalidArgumentError(
      'hash must be a text of an algorithm and hexadecimal digits, such as "sha256:9f86d0…", or the bytes of a hash as a Uint8Array.',
    );
  return value.toLowerCase();
}

export function optionalDate(value: unknown, name: string): Date | null {
  if (value === undefined || value === null) return null;
  const inRange = value instanceof Date && value.getTime() >= earliest && value.getTime() <= latest;
  if (!inRange)
    throw new InvalidArgumentError(`${name} must be a valid Date between the years 1970 and 9998.`);
  return value;
}

const earliest = 0;
const latest = Date.UTC(9998, 0, 1);

export function optionalHeaders(value: unknown): Readonly<Record<string, string>> | null {
  if (value === undefined || value === null) return null;
  const plain = typeof value === "object" && !Array.isArray(value);
  if (!plain || !Object.values(value).every((v) => typeof v === "string")) {
    throw new InvalidArgumentError("headers must be an object whose values are strings.");
  }
  return value as Readonly<Record<string, string>>;
}

/** A duration in milliseconds, more than 0 and at most a year. */
export function requireDuration(value: unknown, name: string): asserts value is number {
  if (typeof value !== "number" || !Number.isFinite(value) || value <= 0 || value > longestMs) {
    throw new ArgumentRangeError(
      `${name} must be more than 0 and at most ${longestMs} ms, not ${String(value)}.`,
    );
  }
}

/** The time between two runs of a timer. */
export function requireInterval(value: unknown, name: string): asserts value is number {
  requireDuration(value, name);
  if (value > longestTimerMs)
    throw new ArgumentRangeError(`${name} must be at most ${longestTimerMs} ms, not ${value}.`);
}

export function requireBatchSize(value: unknown, name = "batchSize"): asserts value is number {
  requireCount(value, name, 1, maxBatchSize);
}

export function optionalCount(value: unknown, name: string, least: number, most?: number): void {
  if (value !== undefined) requireCount(value, name, least, most);
}

/** Like optionalCount, and `Infinity` is no limit. */
export function optionalLimit(value: unknown, name: string, least: number, most: number): void {
  if (value === undefined || isLimit(value, least, most)) return;
  throw new ArgumentRangeError(`${name} must be ${limitRule(least, most)}, not ${String(value)}.`);
}

function requireCount(value: unknown, name: string, least: number, most = Number.MAX_SAFE_INTEGER): void {
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return;
  const range = most === Number.MAX_SAFE_INTEGER ? `, ${least} or more` : ` from ${least} to ${most}`;
  throw new ArgumentRangeError(`${name} must be a whole number${range}, not ${String(value)}.`);
}

/** A text to compare with what is stored. Drivers fail with an error of their own at NUL. */
export function optionalText(value: unknown, name: string, longest: number): void {
  if (value === undefined || value === null) return;
  if (typeof value !== "string" || value.includes("\0") || !value.isWellFormed())
    throw new InvalidArgumentError(`${name} must be well-formed Unicode without NUL characters.`);
  if (value.length > longest)
    throw new InvalidArgumentError(`${name} has ${value.length} characters; at most ${longest} are stored.`);
}

/** An age in milliseconds; 0 is allowed. */
export function optionalAge(value: unknown, name: string): void {
  if (value === undefined) return;
  if (typeof value !== "number" || !(value >= 0 && value <= longestMs * 1000)) {
    throw new ArgumentRangeError(
      `${name} must be a number of milliseconds, 0 or more, not ${String(value)}.`,
    );
  }
}

export function requireList<T>(value: readonly T[], name: string): asserts value is readonly T[] {
  if (!Array.isArray(value)) throw new InvalidArgumentError(`${name} must be an array (it may be empty).`);
}

/** Refuses unknown options, all of them in one error. `word` says what they are. */
export function refuseUnknown(
  options: object,
  known: readonly string[],
  what: string,
  word = "option",
): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new InvalidArgumentError(`${what}: the ${word}s must be an object with ${known.join(", ")}.`);
  }
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  if (unknown.length === 0) return;
  throw new InvalidArgumentError(
    `${what}: unknown ${word}${unknown.length > 1 ? "s" : ""} ${unknown.join(", ")}. Known: ${known.join(", ")}.`,
  );
}

/** The options of a call that takes none of its own. */
export const plainCall: readonly string[] = ["signal"];
export const callInTransaction: readonly string[] = ["tx", "signal"];

/**
 * Refuses mistakes that would lose a transaction silently: an option that the call does not know (`txn`), and a `tx` that
 * is given and undefined.
 */
export function checkCall(call: object, known: readonly string[], what: string): void {
  refuseUnknown(call, known, what);
  if ("tx" in call && call.tx === undefined) {
    throw new InvalidArgumentError(
      `${what}: tx is given and undefined, so this would not be in your transaction. Leave tx out to run without one. A handler has a tx with transactional: true.`,
    );
  }
}

/** The text of the error that a check throws, for a list of all problems. */
export function problemOf(check: () => void): readonly string[] {
  try {
    check();
    return [];
  } catch (error) {
    return [(error as Error).message.replace(/\.$/, "")];
  }
}
