const pattern = /^(?:\w+: )?\[(\d{4}-\d\d-\d\dT[\d:.]+Z)\] ([\s\S]*)$/;

/** The error of one attempt with its time: the outbox has no column for the time of the last attempt. */
export const attemptError = (at: Date, error: string): string => `[${at.toISOString()}] ${error}`;

/** Other errors, such as that of an expired lease, have no time. */
export function readAttemptError(stored: string | null): {
  readonly at: Date | null;
  readonly error: string | null;
} {
  const match = pattern.exec(stored ?? "");
  return match === null ? { at: null, error: stored } : { at: new Date(match[1]!), error: match[2]! };
}
