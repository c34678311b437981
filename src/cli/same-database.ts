import { text, type Values } from "./command.js";
import { quoted } from "./quoted.js";

const names = ["app", "database", "schema", "tenant"] as const;

/**
 * The options of a command line that say where its messages are, for a command that can be pasted. A password is not printed: what
 * is printed may be kept in a log.
 */
export function sameDatabase(values: Values): string {
  const options = names.flatMap((name) => {
    const value = text(values, name);
    return value === undefined ? [] : [` --${name} ${shown(name, value)}`];
  });
  return options.join("");
}

const shown = (name: string, value: string): string =>
  name === "database" && hasPassword(value) ? '"$ONCEBOX_DATABASE_URL"' : word(value);

/** What a shell takes as one word, with quotes where it would change something. */
export const word = (value: string): string => (/^[\w@%+=:,./-]+$/.test(value) ? value : quoted(value));

/** What to do before the command is pasted; undefined when it works as it is. */
export const beforePasting = (values: Values): string | undefined =>
  hasPassword(text(values, "database") ?? "")
    ? "Set ONCEBOX_DATABASE_URL to the URL that you gave before: it has a password, which is not printed."
    : undefined;

/** In the URL's place for it, or as a parameter. */
const hasPassword = (url: string): boolean =>
  /^\w+:\/\/[^/@]*:[^/@]+@/.test(url) || /password|pwd/i.test(url);
