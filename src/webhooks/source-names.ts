/** The part of a source that says whether it keeps to its own topics. */
interface NamedSource {
  readonly sharedTopics?: boolean | undefined;
}

/**
 * Returns what is wrong with the names of sources: of `stripe` and `stripe.eu`, the first could send the topics of the
 * second. No two others can produce one topic, because each topic begins with its source and a dot.
 */
export function sharedNames(sources: Readonly<Record<string, NamedSource>>): readonly string[] {
  const keeping = Object.keys(sources).filter((name) => sources[name]?.sharedTopics !== true);
  return keeping.flatMap((name) =>
    keeping
      .filter((other) => other.startsWith(`${name}.`))
      .map(
        (other) =>
          `${other}: its topics could come from the source ${name} as well; rename one of them, or say sharedTopics: true`,
      ),
  );
}
