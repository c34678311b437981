/** The text of the error that a check throws, for a list of all problems. */
export function problemOf(check: () => void): readonly string[] {
  try {
    check();
    return [];
  } catch (error) {
    return [(error as Error).message.replace(/\.$/, "")];
  }
}
