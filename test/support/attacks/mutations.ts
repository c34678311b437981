import type { SignatureRule } from "../../../src/webhooks/schemes/scheme.js";
import type { OpenTarget, SignedDelivery } from "./targets.js";

export type Below = (limit: number) => number;

/** A cut, a repetition, a byte less, more or changed, another case, white space or a comma. */
export function change(bytes: Buffer, below: Below): Buffer {
  const at = below(bytes.length);
  const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)];
  switch (below(8)) {
    case 0:
      return head;
    case 1:
      return Buffer.concat([bytes, tail]);
    case 2:
      return Buffer.concat([head, tail.subarray(1)]);
    case 3:
      return Buffer.concat([head, Buffer.of(below(128)), tail]);
    case 4:
      return Buffer.from(
        bytes.toString("latin1").replace(/[a-z]/i, (letter) => otherCase(letter)),
        "latin1",
      );
    case 5:
      return Buffer.concat([Buffer.from(" "), bytes, Buffer.from("\t")]);
    case 6:
      return Buffer.concat([bytes, Buffer.from(","), tail]);
    default: {
      const other = Buffer.from(bytes);
      other[at] = (other[at]! + 1 + below(93)) % 128 || 33;
      return other;
    }
  }
}

const otherCase = (letter: string): string =>
  letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase();

export interface Covered {
  /** Headers that prove the delivery, or that are signed. */
  readonly headers: readonly string[];
  readonly body: boolean;
  readonly url: boolean;
}

/** A scheme may name several headers for one value; we sign under the first. */
const firstName = (names: string): string => names.split("|")[0]!.toLowerCase();
const signatureHeader = ({ header = "" }: SignatureRule): string => firstName(header);
const timePart = ({ timestamp }: SignatureRule) =>
  timestamp !== undefined && "header" in timestamp ? timestamp : undefined;
const timeHeader = (rule: SignatureRule): string | undefined => {
  const header = timePart(rule)?.header;
  return header && firstName(header);
};

/** What the proof of a source covers. */
export function coveredBy({ source, genuine }: OpenTarget): Covered {
  const parts = source.proof.flat();
  const has = (placeholder: string) => parts.some((part) => part.placeholder === placeholder);
  const signed = parts
    .filter(({ placeholder }) => placeholder === "header")
    .map(({ text }) => firstName(text));
  const rule = ruleOf(source);
  const own = rule === undefined ? [] : [signatureHeader(rule), timeHeader(rule) ?? signatureHeader(rule)];
  return {
    headers: [...new Set([...own, ...signed])].filter((name) => genuine.headers[name] !== undefined),
    body: rule !== undefined,
    url: has("url"),
  };
}

const ruleOf = ({ scheme: { verify } }: OpenTarget["source"]): SignatureRule | undefined =>
  verify.kind === "signature" ? verify : undefined;

/** One change of something that is covered, or a proof that belongs to another delivery. */
export function mutated(
  genuine: SignedDelivery,
  { headers: names, body, url }: Covered,
  others: readonly SignedDelivery[],
  below: Below,
): SignedDelivery {
  const { headers } = genuine;
  const places = names.length + (body ? names.length + 1 : 0) + (url ? 1 : 0);
  const place = below(places + 1);
  if (place === places) {
    const other = others[below(others.length)]!;
    const [proof = ""] = names;
    return { ...genuine, headers: { ...headers, [proof]: other.headers[proof]! } };
  }
  if (place < names.length) {
    const name = names[place]!;
    const value = change(Buffer.from(headers[name]!), below).toString("latin1");
    return { ...genuine, headers: { ...headers, [name]: value } };
  }
  if (url && place === places - 1) {
    const changed = change(Buffer.from(genuine.url), below).toString("latin1");
    return URL.canParse(changed) ? { ...genuine, url: changed } : { ...genuine, url: `${genuine.url}x` };
  }
  return { ...genuine, body: change(genuine.body, below) };
}

/**
 * Whether the delivery says the same as the genuine one: what is covered is as it was, and only its signature is written in
 * another way, with white space, in capital letters, or repeated.
 */
export function isSameMessage(attack: SignedDelivery, genuine: SignedDelivery, target: OpenTarget): boolean {
  const { headers } = coveredBy(target);
  const rule = ruleOf(target.source);
  const same = (name: string) => attack.headers[name] === genuine.headers[name];
  if (rule === undefined) return headers.every(same);
  const header = signatureHeader(rule);
  const time = timeHeader(rule);
  const others = headers.filter((name) => name !== header && name !== time);
  const isSameTime =
    time === undefined ||
    (time === header
      ? timesIn(attack, rule).every((one) => timesIn(genuine, rule).includes(one))
      : attack.headers[time]?.trim() === genuine.headers[time]);
  return (
    attack.body.equals(genuine.body) &&
    sameSpelling(attack.url) === sameSpelling(genuine.url) &&
    others.every(same) &&
    isSameTime &&
    entriesIn(attack, rule).some((entry) => entriesIn(genuine, rule).includes(entry))
  );
}

const entriesIn = ({ headers }: SignedDelivery, rule: SignatureRule) => {
  const { separator, encoding = "hex" } = rule;
  const value = headers[signatureHeader(rule)] ?? "";
  const entries = separator === undefined ? [value] : value.split(separator);
  return entries.map((entry) => (encoding === "hex" ? entry.trim().toLowerCase() : entry.trim()));
};

const timesIn = (delivery: SignedDelivery, rule: SignatureRule) =>
  entriesIn(delivery, rule).filter((entry) => entry.startsWith(timePart(rule)?.prefix ?? ""));

/** A URL is tried as it was received and as the URL standard writes it, without white space around it. */
const sameSpelling = (url: string): string => withoutPort(URL.canParse(url) ? new URL(url).href : url);

/** Twilio signs the URL with its port, or without it: its own libraries accept both. */
export const withoutPort = (url: string): string =>
  url.replace(/^(https?:\/\/[^/?#:]*):\d+(?=[/?#]|$)/, "$1");
