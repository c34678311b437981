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

/** A run of lines that two texts share: where it begins in each of them, and how long it is. */
export interface SharedRun {
  readonly at: readonly [number, number];
  readonly length: number;
}

/** The longest run of lines that are the same in both, wherever it stands. */
export function longestSharedRun(
  some: readonly string[],
  others: readonly string[],
  isSame: (one: string, other: string) => boolean,
): SharedRun {
  let longest: SharedRun = { at: [0, 0], length: 0 };
  for (let from = 0; from < some.length; from += 1)
    for (let start = 0; start < others.length; start += 1) {
      let length = 0;
      while (
        from + length < some.length &&
        start + length < others.length &&
        isSame(some[from + length]!, others[start + length]!)
      )
        length += 1;
      if (length > longest.length) longest = { at: [from, start], length };
    }
  return longest;
}
