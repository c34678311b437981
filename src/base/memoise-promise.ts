/** Calls `make` at the first use and keeps its promise. A failure is forgotten, so the next caller tries again. */
export function memoisePromise<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
