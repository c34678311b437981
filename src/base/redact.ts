/** Text shared with a payload from this length on is taken for a quotation. */
const quotationLength = 8;
/** Enough to find what an error message quotes; an error must not cost a search through megabytes. */
const searchedLength = 100_000;

/** An error's text with what it quotes of the payload taken out: `JSON.parse`, for one, quotes what it could not read. */
export function withoutPayload(text: string, payload: string): string {
  const searched = payload.slice(0, searchedLength);
  let clean = "";
  for (let i = 0; i < text.length; ) {
    let length = 0;
    while (
      i + length < text.length &&
      quotes(searched, text.slice(i, i + Math.max(length + 1, quotationLength)))
    ) {
      length = Math.max(length + 1, quotationLength);
    }
    if (length < quotationLength) {
      clean += text[i];
      i++;
    } else {
      clean += "[payload]";
      i += length;
    }
  }
  return clean;
}

const quotes = (payload: string, piece: string): boolean =>
  piece.length >= quotationLength && payload.includes(piece);
