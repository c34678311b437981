import { InvalidOperationError } from "../errors.js";

/** What `work` answers, or an error when that takes longer: it may go on, but nobody waits for it any more. */
export async function answeredWithin<T>(longestMs: number, who: string, work: T | Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const tooLong = () => reject(new InvalidOperationError(`${who} did not answer within ${longestMs} ms.`));
    timer = setTimeout(tooLong, longestMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
