/** Waits for `work`, or rejects with the signal's reason. What comes too late goes to `late`. */
export async function abortable<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  late: (result: T) => void = () => {},
): Promise<T> {
  if (signal === undefined) return work;
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } catch (error) {
    if (signal.aborted) work.then(late, () => {}); // nobody waits for it any more
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
