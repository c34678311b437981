import { knownByCode, type OnceboxErrorInfo } from "../../errors.js";

/**
 * The message could not be sent, or the receiver did not return an acknowledgement. It has no `cause`: errors of Node and
 * of gRPC can hold bytes of a request or of a response, and a logger that prints causes would print a payload.
 */
export class TransportError extends Error implements OnceboxErrorInfo {
  static readonly code = "ONCEBOX_TRANSPORT";
  static {
    knownByCode(TransportError);
  }

  readonly code = TransportError.code;
  override readonly name = "TransportError";
}

/** A short reason from an error of Node: its code, such as `ECONNREFUSED`, never its text. */
export const reasonOf = (error: unknown): string => {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  return typeof code === "string" ? code : String(name ?? "Error");
};
