/** A word that differs between the queues in procedures that are equal otherwise. */
export interface Variable {
  readonly name: string;
  readonly inbox: string;
  readonly outbox: string;
}

const wordsOf = (text: string): readonly string[] => text.match(/\w+|\W/g) ?? [];

/** One text for both, with a variable wherever they differ. Undefined when they differ in anything else. */
export function sharedText(
  inbox: string,
  outbox: string,
  variables: readonly Variable[],
): string | undefined {
  const others = wordsOf(outbox);
  const words = wordsOf(inbox).map((word, at) => {
    if (word === others[at]) return word;
    const variable = variables.find((one) => one.inbox === word && one.outbox === others[at]);
    return variable === undefined ? undefined : `$(${variable.name})`;
  });
  return words.length !== others.length || words.includes(undefined) ? undefined : words.join("");
}

/** The longest run of lines that both have, between the same other lines or not. */
export function longestSharedRun(some: readonly string[], others: readonly string[]): readonly string[] {
  let longest: readonly string[] = [];
  for (let from = 0; from < some.length; from += 1)
    for (let start = 0; start < others.length; start += 1) {
      let length = 0;
      while (from + length < some.length && some[from + length] === others[start + length]) length += 1;
      if (length > longest.length) longest = some.slice(from, from + length);
    }
  return longest;
}
