import fc from "fast-check";
import type { SignedEnvelope } from "../../../src/messaging/envelope.js";
import { serialiseEnvelope } from "../../../src/messaging/sign-envelope.js";

/** A signed envelope that mutations begin with. */
export interface Base {
  readonly body: Buffer;
  readonly fields: SignedEnvelope;
}

export interface MutatedBody {
  readonly base: Base;
  readonly body: Buffer;
}

/** Numbers that choose where and how a mutation changes. */
interface Dice {
  readonly a: number;
  readonly b: number;
  readonly byte: number;
}

type Mutation = (body: Buffer, dice: Dice, base: Base) => Buffer;

const splice = (body: Buffer, at: number, removed: number, ...added: Uint8Array[]): Buffer =>
  Buffer.concat([body.subarray(0, at), ...added, body.subarray(at + removed)]);

const pick = <T>(list: readonly T[], number: number): T => list[number % list.length]!;

/** Writes the fields again after a change of them. */
const rewritten =
  (change: (fields: SignedEnvelope, dice: Dice) => object): Mutation =>
  (_, dice, { fields }) =>
    Buffer.from(serialiseEnvelope({ ...fields, ...change(fields, dice) }));

const members = ["messageId", "correlationId", "sourceServiceId", "messageType", "endpoint"] as const;
const snippets = [
  '"',
  "\\",
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  "null",
  '"payload":',
  '"rf-hmac":""',
  "\\u0000",
  "//",
  "0",
];

/** The places of characters that may be written as an escape: letters inside of strings, and some outside. */
const letter = /[a-zA-Z]/g;

/** Change the bytes, whatever was done before. */
const ofBytes = (bases: readonly Base[]): Readonly<Record<string, Mutation>> => ({
  "a bit flipped": (body, { a, b }) =>
    splice(body, a % body.length, 1, Buffer.of(body[a % body.length]! ^ (1 << (b % 8)))),
  "a byte replaced": (body, { a, byte }) => splice(body, a % body.length, 1, Buffer.of(byte)),
  "a byte inserted": (body, { a, byte }) => splice(body, a % (body.length + 1), 0, Buffer.of(byte)),
  "a byte deleted": (body, { a }) => splice(body, a % body.length, 1),
  "white space inserted": (body, { a, b }) =>
    splice(body, a % (body.length + 1), 0, Buffer.from(pick([" ", "\n", "\t", "\r"], b))),
  "a snippet inserted": (body, { a, b }) =>
    splice(body, a % (body.length + 1), 0, Buffer.from(pick(snippets, b))),
  truncated: (body, { a }) => body.subarray(0, a % body.length),
  "a span removed": (body, { a, b }) => splice(body, a % body.length, 1 + (b % 40)),
  "a span repeated": (body, { a, b }) => {
    const at = a % body.length;
    return splice(body, at, 0, body.subarray(at, at + 1 + (b % 80)));
  },
  "a span of another envelope": (body, { a, b }) => {
    const at = a % body.length;
    return splice(body, at, 30, pick(bases, b).body.subarray(at, at + 30));
  },
  "a letter escaped": (body, { a }) => {
    const text = body.toString("latin1");
    const { index } = pick([...text.matchAll(letter)], a);
    return splice(body, index, 1, Buffer.from(`\\u00${body[index]!.toString(16)}`));
  },
});

/** Write the envelope anew. */
const ofFields = (bases: readonly Base[], now: Date): Readonly<Record<string, Mutation>> => ({
  "members in another order": (_, { a }, { fields: { payloadText, ...rest } }) => {
    const texts = Object.entries(rest).map(([name, value]) => `"${name}":${JSON.stringify(value)}`);
    const all = [...texts, `"payload":${payloadText}`];
    return Buffer.from(`{${[...all.slice(a % 7), ...all.slice(0, a % 7)].join(",")}}`);
  },
  "a member twice": (body, { a, b }, { fields }) => {
    const name = pick([...members, "headers", "payload"] as const, a);
    const value = name === "payload" ? fields.payloadText : JSON.stringify(b % 2 === 0 ? fields[name] : null);
    return splice(body, body.lastIndexOf("}"), 0, Buffer.from(`,"${name}":${value}`));
  },
  "the values of two members exchanged": rewritten((fields, { a, b }) => {
    const [one, two] = [pick(members, a), pick(members, b)];
    return { [one]: fields[two], [two]: fields[one] };
  }),
  "a character moved to the next member": rewritten(({ sourceServiceId, endpoint }, { a }) =>
    a % 2 === 0
      ? { sourceServiceId: sourceServiceId.slice(0, -1), endpoint: sourceServiceId.slice(-1) + endpoint }
      : { sourceServiceId: sourceServiceId + endpoint[0], endpoint: endpoint.slice(1) },
  ),
  "a field of another envelope": rewritten((_, { a, b }) => {
    const name = pick([...members, "headers", "payloadText"] as const, a);
    return { [name]: pick(bases, b).fields[name] };
  }),
  "a header changed": rewritten(({ headers }, { a, b }) => {
    const name = pick(Object.keys(headers), a);
    return {
      headers: { ...headers, [name]: pick(["", "0", `${headers[name]} `, headers[name]!.toUpperCase()], b) },
    };
  }),
  "a character moved from a header's value to its name, or back": rewritten(({ headers }, { a, b }) => {
    const moved = pick(Object.keys(headers), a);
    const entries = Object.entries(headers).map(([name, value]) => {
      if (name !== moved) return [name, value];
      return b % 2 === 0
        ? [name + value.slice(0, 1), value.slice(1)]
        : [name.slice(0, -1), name.slice(-1) + value];
    });
    return { headers: Object.fromEntries(entries) };
  }),
  "a header removed": rewritten(({ headers }, { a }) => {
    const { [pick(Object.keys(headers), a)]: _, ...rest } = headers;
    return { headers: rest };
  }),
  "a header added": rewritten(({ headers }, { a, b }) => ({
    headers: { ...headers, [pick(["x-new", "rf-hmac2", "rf-destination", "__proto__"], a)]: String(b) },
  })),
  "the headers of another envelope": rewritten(({ headers }, { a, b }) => {
    const name = pick(["rf-hmac", "rf-timestamp"], a);
    return { headers: { ...headers, [name]: pick(bases, b).fields.headers[name] } };
  }),
  "another timestamp": rewritten(({ headers }, { a, b }) => {
    const at = new Date(now.getTime() + (a % 700_000) - 350_000).toISOString();
    return { headers: { ...headers, "rf-timestamp": b % 2 === 0 ? at : at.replace("Z", "0Z") } };
  }),
  "another signature": rewritten(({ headers }, { a, b }) => {
    const bytes = Buffer.from(headers["rf-hmac"]!, "base64");
    bytes[a % 32]! ^= 1 << (b % 8);
    return { headers: { ...headers, "rf-hmac": bytes.toString("base64") } };
  }),
});

/** The same text for the same fields, in whatever order their headers are. */
export const keyOf = ({ headers, ...fields }: SignedEnvelope): string => {
  const sorted = Object.entries(headers).sort();
  return JSON.stringify([Object.entries(fields).sort(), sorted]);
};

const dice = fc.tuple(fc.nat(), fc.nat(), fc.nat(255)).map(([a, b, byte]) => ({ a, b, byte }));
/** Half of the envelopes are spared, so that many are changed in one way only. */
const orNone = (mutations: Readonly<Record<string, Mutation>>): readonly Mutation[] =>
  Object.values(mutations).flatMap((mutation) => [mutation, (body: Buffer) => body]);

/** Bodies that were changed in one way or two. Some are as they were. `now` is the time of the receiver. */
export const mutatedBodies = (bases: readonly Base[], now: Date): fc.Arbitrary<MutatedBody> =>
  fc
    .tuple(
      fc.constantFrom(...bases),
      fc.constantFrom(...orNone(ofFields(bases, now))),
      dice,
      fc.constantFrom(...orNone(ofBytes(bases))),
      dice,
    )
    .map(([base, first, firstDice, second, secondDice]) => ({
      base,
      body: second(first(base.body, firstDice, base), secondDice, base),
    }));
