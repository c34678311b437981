/** Turns an error that `work` throws synchronously into a rejection, so that callers clean up in one place. */
export function attempted<T>(work: () => Promise<T>): Promise<T> {
  try {
    return work();
  } catch (error) {
    return Promise.reject(error);
  }
}
