/** Where a value is in the text of a JSON document, and its key where it is a member of an object. */
export interface JsonRange {
  readonly start: number;
  readonly end: number;
  readonly key: string | undefined;
  /** Where the member starts, at its key. */
  readonly from: number;
}

/** The range of the whole document. */
export function jsonDocument(text: string): JsonRange {
  const start = skipBlank(text, 0);
  return { start, from: start, end: endOfValue(text, start), key: undefined };
}

export const isJsonList = (text: string, { start }: JsonRange): boolean => text[start] === "[";

/**
 * Returns the members of an object or the items of a list. The text must be valid JSON. Texts are cut out as they were
 * sent: a value that is parsed and written again may have lost digits of its numbers.
 */
export function jsonChildren(text: string, { start }: JsonRange): readonly JsonRange[] {
  const isObject = text[start] === "{";
  if (!isObject && text[start] !== "[") return [];
  const children: JsonRange[] = [];
  let at = skipBlank(text, start + 1);
  while (text[at] !== "}" && text[at] !== "]") {
    const from = at;
    let key: string | undefined;
    if (isObject) {
      const keyEnd = endOfString(text, at);
      key = JSON.parse(text.slice(at, keyEnd)) as string;
      at = skipBlank(text, skipBlank(text, keyEnd) + 1); // past the colon
    }
    const end = endOfValue(text, at);
    children.push({ start: at, end, from, key });
    at = skipBlank(text, end);
    if (text[at] === ",") at = skipBlank(text, at + 1);
  }
  return children;
}

function skipBlank(text: string, from: number): number {
  let at = from;
  while (" \n\r\t\uFEFF".includes(text[at] ?? "x")) at++;
  return at;
}

/** Returns the index after the closing quote of the string that starts here. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let escapes = 0;
    while (text[at - 1 - escapes] === "\\") escapes++;
    if (escapes % 2 === 0) return at + 1;
  }
  return text.length;
}

/** Walks through nested values without recursion: they may be nested deeper than the stack allows. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; ) {
    const sign = text[at]!;
    if (sign === '"') {
      at = endOfString(text, at);
      if (depth === 0) return at;
      continue;
    }
    if (sign === "{" || sign === "[") depth++;
    else if (sign === "}" || sign === "]") {
      if (depth === 0) return at; // the end of a number or a word, in a list or an object
      depth--;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (sign === "," || " \n\r\t".includes(sign))) return at;
    at++;
  }
  return text.length;
}
