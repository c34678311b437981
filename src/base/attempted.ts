/** What throws before it has made its promise is a rejection as well: whoever calls it has something to clear up. */
export function attempted<T>(work: () => Promise<T>): Promise<T> {
  try {
    return work();
  } catch (error) {
    return Promise.reject(error);
  }
}
