export interface AbortHooks<T> {
  /** Gets what comes too late. */
  readonly late?: (result: T) => void;
  /** Tells the other side to give up too. */
  readonly cancel?: () => void;
}

/** Waits for `work`, or rejects with the signal's reason. */
export async function abortable<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  { late = () => {}, cancel = () => {} }: AbortHooks<T> = {},
): Promise<T> {
  if (signal === undefined) return work;
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => {
      reject(signal.reason);
      cancel();
    };
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
