/** Most texts have nothing to escape. */
const plain = /^[ -~\n\t]*$/;

/**
 * Control characters but line breaks and tabs, and characters that are not seen or that turn the writing direction. Made
 * when it is first used, and not a literal: V8 reads the sets of Unicode for a literal even if it is not used, which is
 * 0.4 ms of a cold start.
 */
const newControls = () => /[^\P{Cc}\n\t]|[\p{Cf}\u2028\u2029]/gu;
let controls: RegExp | undefined;

/**
 * Writes such characters as `\u202e`. A sender chooses ids and topics: in a terminal or a viewer of logs they could clear the
 * screen, forge a line or show a text backwards. In JSON the escaped text means the same.
 */
export function escapeControls(text: string): string {
  if (plain.test(text)) return text;
  controls ??= newControls();
  return text.replace(controls, escaped);
}

/** One escape for each half of a pair, as JSON has it. */
const escaped = (character: string): string =>
  character
    .split("")
    .map((half) => `\\u${half.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
