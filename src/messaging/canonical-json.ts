import { InvalidArgumentError } from "../errors.js";
import { wireLimits } from "./envelope.js";

/**
 * Returns the canonical JSON of a value (RFC 8785): the text that is signed, so that sender and receiver agree in any language.
 * Refuses what `JSON.stringify` would throw at, leave out or change, and what a JSON parser elsewhere may read as another
 * value: circular references, BigInts, functions, symbols, NaN, integers beyond 2^53, lone surrogates, Maps. The error
 * names the path and never the value. A member that is undefined is left out, as in `JSON.stringify`.
 */
export function canonicalJson(value: unknown, name = "payload"): string {
  const written = writeCanonical(value);
  if ("text" in written) return written.text;
  const { problem, path, advice, cause } = written;
  const options = cause === undefined ? undefined : { cause };
  throw new InvalidArgumentError(`${name}${pathText(path)} ${problem}. ${advice}`, options);
}

type Canonical =
  | { readonly text: string }
  | {
      /** Quotes nothing of the value. */
      readonly problem: string;
      readonly path: readonly PathStep[];
      readonly advice: string;
      readonly cause?: unknown;
    };

type PathStep = string | number;

/** As `canonicalJson`, with the problem as a value: a receiver logs it without the path, which quotes the payload's names. */
export function writeCanonical(value: unknown): Canonical {
  const writer = new CanonicalWriter();
  const { path } = writer;
  try {
    return { text: required(writer.write(value, "")) };
  } catch (error) {
    if (error instanceof NotCanonical) return { problem: error.message, advice: error.advice, path };
    const problem = "cannot be read: its getter or its toJSON threw an error";
    return { problem, advice: plainJson, path, cause: error };
  }
}

const plainJson = "Send plain JSON.";

class NotCanonical extends Error {
  constructor(
    problem: string,
    readonly advice = plainJson,
  ) {
    super(problem);
  }
}

class CanonicalWriter {
  /** Where it is. After an error: where the value is that cannot be written. */
  readonly path: PathStep[] = [];
  readonly #ancestors = new Set<object>();

  /** Returns undefined for undefined. */
  write(given: unknown, key: string): string | undefined {
    const value = plainValue(given, key);
    switch (typeof value) {
      case "undefined":
        return undefined;
      case "boolean":
        return String(value);
      case "number":
        return numberText(value);
      case "string":
        return stringText(value);
      case "object":
        return value === null ? "null" : this.#writeObject(value);
      default:
        throw new NotCanonical(`is a ${typeof value}`);
    }
  }

  #writeObject(value: object): string {
    if (this.#ancestors.has(value)) throw new NotCanonical("is a circular reference");
    if (this.path.length >= wireLimits.depth)
      throw new NotCanonical(`is nested deeper than ${wireLimits.depth} levels`);
    this.#ancestors.add(value);
    const text = Array.isArray(value) ? this.#writeArray(value) : this.#writeMembers(value);
    this.#ancestors.delete(value);
    return text;
  }

  #writeArray(values: readonly unknown[]): string {
    const texts: string[] = [];
    for (let index = 0; index < values.length; index++) {
      this.path.push(index);
      texts.push(required(this.write(values[index], String(index))));
      this.path.pop();
    }
    return `[${texts.join(",")}]`;
  }

  #writeMembers(value: object): string {
    // Maps, Sets, buffers and errors would become {} or lose what they are
    if (Object.prototype.toString.call(value) !== "[object Object]")
      throw new NotCanonical("is neither a plain object nor an array");
    const texts: string[] = [];
    // sort() compares UTF-16 code units, which is the order of RFC 8785
    for (const key of Object.keys(value).sort()) {
      this.path.push(key);
      const text = this.write((value as Readonly<Record<string, unknown>>)[key], key);
      if (text !== undefined) texts.push(`${stringText(key)}:${text}`);
      this.path.pop();
    }
    return `{${texts.join(",")}}`;
  }
}

/** Applies toJSON, of a Date for example, once and with the key, as `JSON.stringify` does. */
function plainValue(given: unknown, key: string): unknown {
  if ((typeof given !== "object" || given === null) && typeof given !== "bigint") return given;
  const { toJSON } = given as { toJSON?: unknown };
  if (typeof toJSON !== "function") return given;
  const value: unknown = toJSON.call(given, key);
  if (value === undefined) throw new NotCanonical("has a toJSON that returns undefined");
  if (value === null && given instanceof Date) throw new NotCanonical("is an invalid Date");
  return value;
}

/**
 * Beyond 2^53 a double skips integers: `JSON.parse` has lost digits by then, and a parser that keeps them sees another
 * number under the same signature. `JSON.stringify` writes a double as RFC 8785 does, -0 as 0.
 */
function numberText(value: number): string {
  if (!Number.isFinite(value)) throw new NotCanonical("is NaN or infinite");
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER)
    throw new NotCanonical(`is a number beyond ±${Number.MAX_SAFE_INTEGER}`, "Send it as a string.");
  return JSON.stringify(value);
}

function stringText(value: string): string {
  if (!value.isWellFormed()) throw new NotCanonical("has a lone surrogate");
  return JSON.stringify(value);
}

function required(text: string | undefined): string {
  if (text === undefined) throw new NotCanonical("is undefined");
  return text;
}

const maxPathLength = 200;

function pathText(path: readonly PathStep[]): string {
  const text = path.map(stepText).join("");
  return text.length > maxPathLength ? `${text.slice(0, maxPathLength).toWellFormed()}…` : text;
}

const stepText = (step: PathStep): string =>
  typeof step === "string" && /^[a-z_$][\w$]*$/i.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
