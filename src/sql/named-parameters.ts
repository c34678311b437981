/**
 * Finds `:name` in a statement, passing over quoted names, string literals and `::casts`,
 * so that a table called "a:b" stays what it is.
 */
const tokens = /"(?:[^"]|"")*"|'(?:[^']|'')*'|--[^\n]*|::|:([a-z_][a-z0-9_]*)/g;

export function parameterNames(text: string): readonly string[] {
  const names = new Set<string>();
  for (const match of text.matchAll(tokens)) if (match[1] !== undefined) names.add(match[1]);
  return [...names];
}

export interface PositionalText {
  readonly text: string;
  /** The parameters' names in the order of `$1`, `$2`, … */
  readonly order: readonly string[];
}

export function toPositional(text: string): PositionalText {
  const order = parameterNames(text);
  return {
    order,
    text: text.replace(tokens, (whole, name?: string) =>
      name === undefined ? whole : `$${order.indexOf(name) + 1}`,
    ),
  };
}

/** For bindings that take `?`: the name of each occurrence, in order. */
export function toAnonymous(text: string): PositionalText {
  const order: string[] = [];
  const anonymous = text.replace(tokens, (whole, name?: string) => {
    if (name === undefined) return whole;
    order.push(name);
    return "?";
  });
  return { text: anonymous, order };
}
