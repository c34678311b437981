/** Parts of a text in which `:name` is not a parameter. `::` is a cast, or the scope of a name in T-SQL. */
const opaque = {
  doubleQuoted: '"(?:[^"]|"")*"',
  string: "'(?:[^']|'')*'",
  bracketed: "\\[(?:[^\\]]|\\]\\])*\\]",
  lineComment: "--[^\\n]*",
  blockComment: "/\\*[\\s\\S]*?\\*/",
  doubleColon: "::",
} as const;

const parameter = ":([A-Za-z_][A-Za-z0-9_]*)";
const tokensOf = (...parts: readonly string[]): RegExp => new RegExp(parts.join("|"), "g");

const { bracketed, ...everywhere } = opaque;
const standardTokens = tokensOf(...Object.values(everywhere), parameter);
/** SQLite and T-SQL quote names in brackets too. In PostgreSQL brackets hold an array's index, perhaps a parameter. */
const bracketTokens = tokensOf(bracketed, ...Object.values(everywhere), parameter);

/** Replaces each `:name` by what `write` returns for it. */
const replaced = (text: string, tokens: RegExp, write: (name: string) => string): string =>
  text.replace(tokens, (token: string, name?: string) => (name === undefined ? token : write(name)));

export interface PositionalText {
  readonly text: string;
  /** The parameters' names in the order of their values. */
  readonly order: readonly string[];
}

/** PostgreSQL: `$1`, `$2`, …, the same number for the same name. */
export function toPositional(text: string): PositionalText {
  const order: string[] = [];
  const numbered = replaced(text, standardTokens, (name) => {
    const index = order.indexOf(name);
    return `$${index < 0 ? order.push(name) : index + 1}`;
  });
  return { order, text: numbered };
}

/** SQLite: a `?` for each occurrence. */
export const toAnonymous = (text: string): PositionalText => toOccurrences(text, () => "?", bracketTokens);

/** A placeholder, numbered from 1, and a value for each occurrence. */
export function toOccurrences(
  text: string,
  placeholder: (index: number) => string,
  tokens: RegExp = standardTokens,
): PositionalText {
  const order: string[] = [];
  return { order, text: replaced(text, tokens, (name) => placeholder(order.push(name))) };
}

const variableTokens = tokensOf(
  bracketed,
  ...Object.values(everywhere),
  "@@\\w+",
  "[:@]([A-Za-z_][A-Za-z0-9_]*)",
);

/**
 * SQL Server: `@name` for `:name`. The order is that of the first occurrences. `:name` is always a parameter. `@name` is a
 * parameter if `given` has it, else a T-SQL variable. The server refuses parameters that the text does not use.
 */
export function toVariables(text: string, given: object): PositionalText {
  const names = new Set<string>();
  const variables = text.replace(variableTokens, (token: string, name?: string) => {
    if (name === undefined) return token;
    if (token.startsWith(":") || Object.hasOwn(given, name)) names.add(name);
    return `@${name}`;
  });
  return { text: variables, order: [...names] };
}

const namesAndLiterals = tokensOf(bracketed, ...Object.values(everywhere));

/** A text without its comments, quoted names and string literals, to look for keywords in. */
export const keywordsOf = (text: string): string => text.replace(namesAndLiterals, " ");
