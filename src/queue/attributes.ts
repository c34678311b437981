/** Names the headers whose texts are JSON, in a JSON list: headers are texts, and attributes may be any JSON. */
const jsonHeaders = "oncebox-json-headers";

/** Says that the payload is a body in base64, because the body is not UTF-8. */
export const payloadEncodingHeader = "oncebox-payload-encoding";

/** Attributes as headers. A text stays as it is. Any other value becomes JSON, and `attributesOf` gives it back with its type. */
export function attributeHeaders(attributes: Readonly<Record<string, unknown>>): Record<string, string> {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
  const typed = given.filter(([, value]) => typeof value !== "string").map(([name]) => name);
  const texts = given.map(([name, value]) => [
    name,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
  const mark = typed.length === 0 ? [] : [[jsonHeaders, JSON.stringify(typed)]];
  return Object.fromEntries([...texts, ...mark]);
}

/**
 * The headers of a message as attributes: those that a handler gave as numbers, booleans, lists or objects are so again.
 *
 * @example
 * const publish = async (message: OutboxMessage) => console.log(attributesOf(message).version); // 2, where the header is "2"
 */
export function attributesOf({
  headers,
}: {
  readonly headers?: Readonly<Record<string, string>> | null | undefined;
}): Record<string, unknown> {
  const { [jsonHeaders]: mark, ...texts } = headers ?? {};
  // in lower case, because HTTP sends names so
  const listed = parsedOr(mark ?? "[]", []);
  const typed = new Set(Array.isArray(listed) ? listed.map((name) => String(name).toLowerCase()) : []);
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [
      name,
      typed.has(name.toLowerCase()) ? parsedOr(text, text) : text,
    ]),
  );
}

/** A sender may have written anything into a header. */
function parsedOr(text: string, otherwise: unknown): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return otherwise;
  }
}
