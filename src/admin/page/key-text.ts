// The names of operators and the keys of messages as people read them. API and command line import them from here, because
// the page can import nothing outside of its folder.

/**
 * Characters that nobody sees and that change what is read: control characters, the marks that turn the direction of a text,
 * those without a width, and the separators of lines.
 */
export const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

const longestOperatorName = 100;

export const operatorRule = `must be a text of 1 to ${longestOperatorName} characters, without control characters, marks of direction and other characters that nobody sees`;

/**
 * Whether a record may name a person so. Who reads the record must see who it was: a mark of direction shows a name
 * backwards, and a character without width makes two names of one.
 */
export const isOperatorName = (name: string): boolean =>
  name !== "" &&
  name.length <= longestOperatorName &&
  !/\p{Cs}/u.test(name) && // half of a character
  !invisible.test(name) &&
  name.trim() === name;

interface InboxKey {
  readonly source: string;
  readonly messageId: string;
}

/** What separates the names, what begins an escape, and what nobody would see. */
const escaped = new RegExp(`[%/]|${invisible.source}`, "gu");

/** A name in a key. It has no slash of its own. */
const nameText = (name: string): string =>
  name.replace(escaped, (character) => Array.from(new TextEncoder().encode(character), percented).join(""));
const percented = (byte: number): string => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;

/**
 * A key as one text: `SOURCE/MESSAGE-ID`, or the id of an outbox message. Each message has one such text and no other message
 * has the same: a slash in a source would else make two keys one.
 *
 * @example
 * keyText({ source: "erp/eu", messageId: "7" }); // erp%2Feu/7
 */
export const keyText = (key: InboxKey | { readonly id: string }): string =>
  "source" in key ? `${nameText(key.source)}/${nameText(key.messageId)}` : key.id;

/** Reads what `keyText` wrote for the inbox. Undefined for any other text, even if it could be understood. */
export function inboxKeyOf(text: string): InboxKey | undefined {
  const parts = text.replace(/%[0-9a-f]{2}/gi, (one) => one.toUpperCase()).split("/");
  const [source, messageId] = parts.map(decodedName);
  if (parts.length !== 2 || !source || !messageId) return undefined;
  return keyText({ source, messageId }) === parts.join("/") ? { source, messageId } : undefined;
}

function decodedName(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** The keys that somebody may have meant by a text that is none. */
export function keysMeantBy(text: string): readonly string[] {
  const parts = text.split("/");
  return parts
    .slice(1)
    .map((_, index) => ({
      source: parts.slice(0, index + 1).join("/"),
      messageId: parts.slice(index + 1).join("/"),
    }))
    .filter(({ source, messageId }) => source !== "" && messageId !== "")
    .map(keyText);
}
