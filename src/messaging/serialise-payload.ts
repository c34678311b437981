import { InvalidArgumentError } from "../errors.js";
import { wireLimits } from "./envelope-fields.js";

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
