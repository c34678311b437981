/** One way to read an error's text. `placeOf` says which characters of the text a part of it stands for. */
export interface ReadableForm {
  readonly codes: Uint16Array;
  placeOf(from: number, to: number): [from: number, to: number] | undefined;
}

/** The text as it is, without escapes, and each of its parts that may be base64, decoded. All in lower case. */
export function readableForms(text: string): readonly ReadableForm[] {
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
export function* searchedForms(payload: string): Generator<Uint16Array> {
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
