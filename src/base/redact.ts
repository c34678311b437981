import { readableForms, searchedForms } from "./redact-forms.js";

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
