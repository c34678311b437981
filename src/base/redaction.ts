/** An error's text is stored up to so many characters. */
export const longestErrorText = 4_000;
/** Fewer characters in common with a payload are words of the language, not a quotation. */
const quotationLength = 8;
/** A longer payload would take more than a second to search. Then nothing of the text is kept. */
const longestPayload = 8 * 1_048_576;

/**
 * Cuts an error's text, and replaces each run of eight characters or more that stands in the payload, too. `JSON.parse`,
 * for example, quotes its input. What is written differently than in the payload (escaped, encoded, in another case)
 * stays. The payload is read once, so the time grows with its length only.
 */
export function withoutPayload(text: string, payload: string): string {
  if (payload.length > longestPayload) return "[not kept: the payload is too long to search for quotations]";
  const kept = text.slice(0, longestErrorText);
  const quoted = commonPieces(kept, payload);
  if (quoted.size === 0) return kept;
  let clean = "";
  let quotedUntil = 0;
  for (let at = 0; at < kept.length; at++) {
    if (quoted.has(pieceAt(kept, at))) {
      if (at >= quotedUntil) clean += "[payload]";
      quotedUntil = at + quotationLength;
    } else if (at >= quotedUntil) clean += kept[at];
  }
  return clean.slice(0, longestErrorText);
}

/** Every eight consecutive characters that both texts have. */
function commonPieces(text: string, payload: string): ReadonlySet<string> {
  const pieces = new Set<string>();
  for (let at = 0; at + quotationLength <= text.length; at++) pieces.add(pieceAt(text, at));
  const common = new Set<string>();
  for (let at = 0; at + quotationLength <= payload.length; at++) {
    const piece = pieceAt(payload, at);
    if (pieces.has(piece)) common.add(piece);
  }
  return common;
}

const pieceAt = (text: string, at: number): string => text.slice(at, at + quotationLength);

/** A value as JSON, to be searched. A payload that came in-process may be something that JSON cannot hold. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return "";
  }
}
