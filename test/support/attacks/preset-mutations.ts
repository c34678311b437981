import { type Below, change } from "./mutations.js";
import type { SignedDelivery } from "./targets.js";

/** One change of a header, the URL or the body, or a part of another delivery that somebody has a copy of. */
export function mutatedPreset(
  genuine: SignedDelivery,
  others: readonly SignedDelivery[],
  below: Below,
): SignedDelivery {
  const names = Object.keys(genuine.headers).filter((name) => name !== "content-type");
  const other = others[below(others.length)]!;
  const name = names[below(names.length)];
  const value = name === undefined ? "" : genuine.headers[name]!;
  const withHeader = (text: string): SignedDelivery =>
    name === undefined ? genuine : { ...genuine, headers: { ...genuine.headers, [name]: text } };
  switch (below(7)) {
    case 0:
    case 1:
      return withHeader(change(Buffer.from(value), below).toString("latin1"));
    case 2:
      return withHeader((name && other.headers[name]) ?? "");
    case 3:
      return { ...genuine, body: below(3) === 0 ? other.body : change(genuine.body, below) };
    case 4:
      return { ...genuine, headers: other.headers };
    case 5: {
      const changed = change(Buffer.from(genuine.url), below).toString("latin1");
      return { ...genuine, url: URL.canParse(changed) ? changed : other.url };
    }
    default:
      return { ...genuine, body: changedJson(genuine.body, other.body, below) };
  }
}

/** Still JSON, with a value of it changed, taken out, repeated, or replaced by one of another delivery. */
function changedJson(body: Buffer, other: Buffer, below: Below): Buffer {
  try {
    const json: unknown = JSON.parse(body.toString());
    const theirs: unknown = JSON.parse(other.toString());
    const places = objectsIn(json);
    const at = below(places.length);
    const [object, twin] = [places[at]!, objectsIn(theirs)[at] ?? {}];
    const keys = Object.keys(object);
    const key = keys[below(keys.length)] ?? "added";
    const value = object[key];
    switch (below(6)) {
      case 0:
        delete object[key];
        break;
      case 1:
        object[key] = typeof value === "string" ? change(Buffer.from(value), below).toString("latin1") : 1;
        break;
      case 2:
        object[key] = [value, Number(value), null, [value], { value }, true][below(6)];
        break;
      case 3:
        object[key] = (twin as Record<string, unknown>)[key];
        break;
      case 4:
        if (Array.isArray(object)) object.push(value, twin);
        else object[`${key}2`] = value;
        break;
      default:
        return Buffer.from(JSON.stringify(json, undefined, 1 + below(3)));
    }
    return Buffer.from(JSON.stringify(json));
  } catch {
    return change(body, below);
  }
}

type Json = Record<string, unknown>;
const objectsIn = (value: unknown): Json[] =>
  typeof value === "object" && value !== null
    ? [value as Json, ...Object.values(value).flatMap(objectsIn)]
    : [];
