/** What a log line says of an error that is not this package's own. */
export interface LoggedError {
  /** Its name and its code. */
  readonly error: string;
  /** Where it was thrown: function names, files and lines. */
  readonly stack?: string;
}

const maxFrames = 10;
const frame = /^\s+at .{1,500}$/;
/** A name or a code is a word. Anything else may be a text that was put in its place. */
const word = /^[\w.$:-]{1,100}$/;

/**
 * Name, code and stack frames of what was thrown. Its message is left out: it may quote a payload, a parameter or a secret.
 * The message of a failed handler is kept in `lastError`.
 */
export function loggedError(error: unknown): LoggedError {
  try {
    const stack = framesOf(error);
    return { error: nameAndCode(error), ...(stack === "" ? {} : { stack }) };
  } catch {
    return { error: "Error" }; // one of its getters throws
  }
}

export function nameAndCode(error: unknown): string {
  // SQL Server's errors have a number, not a code
  const { name = "Error", code, number } = (error ?? {}) as Record<string, unknown>;
  const [first = "Error", ...rest] = [name, code, number].filter(
    (part) => typeof part === "number" || (typeof part === "string" && word.test(part)),
  );
  return [first, ...rest].join(" ");
}

/**
 * The frames are behind the message, which may have lines that look like frames. A stack that does not have the message
 * was written before the message was changed. Then it cannot be told where the frames begin.
 */
function framesOf(error: unknown): string {
  const { stack, message } = (error ?? {}) as { readonly stack?: unknown; readonly message?: unknown };
  if (typeof stack !== "string" || typeof message !== "string") return "";
  const at = stack.indexOf(message);
  if (at < 0) return "";
  const lines = stack.slice(at + message.length, at + message.length + 10_000).split("\n", maxFrames + 1);
  return lines
    .slice(1)
    .filter((line) => frame.test(line))
    .map((line) => line.trim())
    .join(", ");
}
