/** An error text that repeats so many characters of a payload is taken to quote it. */
const quotationLength = 8;
/** Only the first part of a payload is searched: an error must not cost a search through megabytes. */
const searchedLength = 100_000;

/** Removes from an error's text what it quotes of the payload. `JSON.parse`, for example, quotes its input. */
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
