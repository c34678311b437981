/** An error text that repeats so many characters of a payload is taken to quote it. */
const quotationLength = 8;
/** An error's text is stored and logged up to so many characters. */
export const longestErrorText = 4_000;
/** A longer payload is not searched. Then nothing of the text is kept. */
const longestPayload = 8 * 1_048_576;

/**
 * Removes from an error's text what it quotes of the payload: eight characters or more, in any case of letters, as they
 * are or escaped as in JSON, form-encoded or in base64. `JSON.parse`, for example, quotes its input. The text is cut
 * before anything else, and the payload is read a fixed number of times: any error costs a time that grows with the
 * payload's length alone.
 */
export function withoutPayload(text: string, payload: string): string {
  if (payload.length < quotationLength || text.length < quotationLength) return cut(text);
  if (payload.length > longestPayload)
    return "[the payload is too long to be searched for in the error's text]";
  // A little more than is kept, so that a quotation across the cut is found.
  const searched = text.slice(0, longestErrorText + 4 * quotationLength);
  const isQuoted = quotedCharacters(searched, payload);
  let clean = "";
  for (let i = 0; i < searched.length && i < longestErrorText; i++) {
    if (!isQuoted[i]) clean += searched[i];
    else if (i === 0 || !isQuoted[i - 1]) clean += "[payload]";
  }
  return cut(clean);
}

const cut = (text: string): string => text.slice(0, longestErrorText);

/** Eight characters of one form of the text that were not yet found in the payload. */
interface Piece {
  readonly codes: Uint16Array;
  readonly at: number;
  /** The places of the text to mark: the first, and the one after the last. */
  readonly marks: [from: number, to: number][];
}

function quotedCharacters(text: string, payload: string): Uint8Array {
  const isQuoted = new Uint8Array(text.length);
  const pieces = new Map<number, Piece[]>();
  for (const { codes, placeOf } of readableForms(text)) {
    for (const { at, hash } of hashes(codes)) {
      const mark = placeOf(at, at + quotationLength);
      if (mark !== undefined) addPiece(pieces, hash, { codes, at, marks: [mark] });
    }
  }
  const isWanted = filterOf([...pieces.keys()]);
  for (const codes of searchedForms(payload)) {
    findPieces(codes, isWanted, pieces, ([from, to]) => isQuoted.fill(1, from, to));
  }
  return isQuoted;
}

function addPiece(pieces: Map<number, Piece[]>, hash: number, piece: Piece): void {
  const same = pieces.get(hash);
  if (same === undefined) {
    pieces.set(hash, [piece]);
    return;
  }
  const equal = same.find((one) => equals(one.codes, one.at, piece.codes, piece.at));
  if (equal === undefined) same.push(piece);
  else equal.marks.push(...piece.marks);
}

/** Each piece is found once and then forgotten, so that a payload of one repeated letter costs no more than another. */
function findPieces(
  codes: Uint16Array,
  isWanted: (hash: number) => boolean,
  pieces: Map<number, Piece[]>,
  found: (mark: readonly [number, number]) => void,
): void {
  let hash = 0;
  for (let i = 0; i < codes.length; i++) {
    hash = (Math.imul(hash, factor) + codes[i]!) | 0;
    if (i >= quotationLength) hash = (hash - Math.imul(codes[i - quotationLength]!, lastFactor)) | 0;
    if (i < quotationLength - 1 || !isWanted(hash)) continue;
    const same = pieces.get(hash);
    const at = i - quotationLength + 1;
    const index = same?.findIndex((one) => equals(one.codes, one.at, codes, at)) ?? -1;
    if (index >= 0) for (const mark of same!.splice(index, 1)[0]!.marks) found(mark);
  }
}

/** Random, so that nobody can choose a payload whose pieces all have the same hash. */
const factor = (Math.floor(Math.random() * 2 ** 30) << 1) | 1;
const lastFactor = Array.from({ length: quotationLength }).reduce<number>((all) => Math.imul(all, factor), 1);

function* hashes(codes: Uint16Array): Generator<{ readonly at: number; readonly hash: number }> {
  for (let at = 0; at + quotationLength <= codes.length; at++) {
    let hash = 0;
    for (let i = at; i < at + quotationLength; i++) hash = (Math.imul(hash, factor) + codes[i]!) | 0;
    yield { at, hash };
  }
}

/** Tells most hashes apart without a look into the map, which takes ten times as long. */
function filterOf(wanted: readonly number[]): (hash: number) => boolean {
  const bits = Math.max(8, Math.ceil(Math.log2(wanted.length + 1)) + 4);
  const table = new Uint8Array(2 ** bits);
  const slotOf = (hash: number): number => Math.imul(hash, 0x9e3779b1) >>> (32 - bits);
  for (const hash of wanted) table[slotOf(hash)] = 1;
  return (hash) => table[slotOf(hash)] === 1;
}

function equals(a: Uint16Array, at: number, b: Uint16Array, bAt: number): boolean {
  for (let i = 0; i < quotationLength; i++) if (a[at + i] !== b[bAt + i]) return false;
  return true;
}

/** One way to read an error's text. `placeOf` says which characters of the text a part of it stands for. */
interface ReadableForm {
  readonly codes: Uint16Array;
  placeOf(from: number, to: number): [from: number, to: number] | undefined;
}

/** The text as it is, without escapes, and each of its parts that may be base64, decoded. All in lower case. */
function readableForms(text: string): readonly ReadableForm[] {
  const plain = lowerCodes(text);
  const unescaped = withoutEscapes(plain);
  const forms: ReadableForm[] = [{ codes: plain, placeOf: (from, to) => [from, to] }];
  if (unescaped !== undefined) {
    const { codes, starts } = unescaped;
    forms.push({ codes, placeOf: (from, to) => [starts[from]!, starts[to]!] });
  }
  for (const run of text.matchAll(/[A-Za-z0-9+/_-]{11,}/g)) {
    const place: [number, number] = [run.index, run.index + run[0].length];
    for (const codes of decodedRuns(run[0])) {
      // what is not text decodes to U+FFFD, and two such pieces are not the same for that
      const isText = (from: number, to: number) => !codes.subarray(from, to).includes(0xfffd);
      forms.push({ codes, placeOf: (from, to) => (isText(from, to) ? place : undefined) });
    }
  }
  return forms;
}

/** The payload as it is, without escapes, and decoded where all of it is base64. All in lower case. */
function* searchedForms(payload: string): Generator<Uint16Array> {
  const plain = lowerCodes(payload);
  yield plain;
  const unescaped = withoutEscapes(plain);
  if (unescaped !== undefined) yield unescaped.codes;
  if (/^[A-Za-z0-9+/_-]+={0,2}\s*$/.test(payload))
    yield lowerCodes(Buffer.from(payload, "base64").toString());
}

/** A part of a longer base64 text may begin at any of four places. */
const decodedRuns = (run: string): readonly Uint16Array[] =>
  [0, 1, 2, 3].map((skipped) => lowerCodes(Buffer.from(run.slice(skipped), "base64").toString()));

/** The code units in lower case. Letters whose lower case has another length stay as they are. */
function lowerCodes(text: string): Uint16Array {
  const lower = text.toLowerCase();
  const hasSameLength = lower.length === text.length;
  const codes = new Uint16Array(text.length);
  for (let i = 0; i < text.length; i++) codes[i] = hasSameLength ? lower.charCodeAt(i) : lowerCode(text, i);
  return codes;
}

function lowerCode(text: string, at: number): number {
  const lower = text[at]!.toLowerCase();
  return lower.length === 1 ? lower.charCodeAt(0) : text.charCodeAt(at);
}

const percent = 0x25;
const plus = 0x2b;
const backslash = 0x5c;
/** The characters after a backslash in JSON that stand for another one. */
const jsonEscapes: Readonly<Record<number, number>> = { 98: 8, 102: 12, 110: 10, 114: 13, 116: 9 };

/**
 * `%41`, `+`, `\n` and `\u0041` as what they stand for, with the place of each character in the text. Undefined where
 * there are none.
 */
function withoutEscapes(text: Uint16Array): { codes: Uint16Array; starts: Uint32Array } | undefined {
  if (!text.includes(percent) && !text.includes(plus) && !text.includes(backslash)) return undefined;
  const codes = new Uint16Array(text.length);
  const starts = new Uint32Array(text.length + 1);
  let length = 0;
  let i = 0;
  while (i < text.length) {
    const { code, size } = escapeAt(text, i);
    starts[length] = i;
    codes[length++] = size === 1 ? code : lowerOf(code);
    i += size;
  }
  starts[length] = text.length;
  return { codes: codes.subarray(0, length), starts: starts.subarray(0, length + 1) };
}

/** What an escape stands for was not in lower case yet. */
function lowerOf(code: number): number {
  if (code < 0x80) return code >= 0x41 && code <= 0x5a ? code + 32 : code;
  return lowerCode(String.fromCharCode(code), 0);
}

function escapeAt(text: Uint16Array, at: number): { readonly code: number; readonly size: number } {
  const code = text[at]!;
  if (code === plus) return { code: 0x20, size: 1 };
  if (code === percent) return percentEncoded(text, at) ?? { code, size: 1 };
  if (code !== backslash || at + 1 === text.length) return { code, size: 1 };
  const next = text[at + 1]!;
  const unicode = next === 0x75 ? hexAt(text, at + 2, 4) : undefined;
  if (unicode !== undefined) return { code: unicode, size: 6 };
  return { code: jsonEscapes[next] ?? next, size: 2 };
}

/** One character of the Basic Multilingual Plane in UTF-8, each byte as `%xx`. */
function percentEncoded(text: Uint16Array, at: number): { code: number; size: number } | undefined {
  const first = hexAt(text, at + 1, 2);
  if (first === undefined) return undefined;
  if (first < 0x80) return { code: first, size: 3 };
  const more = first >= 0xf0 ? -1 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : -1;
  let code = more === 2 ? first & 0x0f : first & 0x1f;
  for (let i = 1; i <= more; i++) {
    const byte = text[at + 3 * i] === percent ? hexAt(text, at + 3 * i + 1, 2) : undefined;
    if (byte === undefined || byte >> 6 !== 2) return undefined;
    code = (code << 6) | (byte & 0x3f);
  }
  return more < 0 ? undefined : { code, size: 3 * (more + 1) };
}

function hexAt(text: Uint16Array, at: number, digits: number): number | undefined {
  let value = 0;
  for (let i = at; i < at + digits; i++) {
    const digit = hexDigit(text[i] ?? 0);
    if (digit < 0) return undefined;
    value = value * 16 + digit;
  }
  return value;
}

const hexDigit = (code: number): number =>
  code >= 0x30 && code <= 0x39 ? code - 0x30 : code >= 0x61 && code <= 0x66 ? code - 0x57 : -1;

/** A value as JSON, to be searched. A payload that came in-process may be something that JSON cannot hold. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return "";
  }
}
