import { knownByCode, type OnceboxErrorInfo } from "../../errors.js";

/** The inbox service refused a call, could not be reached, or answered what the contract does not know. */
export class InboxServiceError extends Error implements OnceboxErrorInfo {
  static readonly code = "ONCEBOX_INBOX_SERVICE";
  static {
    knownByCode(InboxServiceError);
  }

  readonly code = InboxServiceError.code;
  override readonly name = "InboxServiceError";
  /** Of the last answer; null when there was none. */
  readonly status: number | null;
  /** The same call may succeed later. The client has repeated it as often as it may. */
  readonly isTransient: boolean;
  /** Which field of the request the service refused, if it said so. */
  readonly field: string | null;
  /** How long the service wants callers to wait, if it said so. */
  readonly retryAfterMs: number | null;

  constructor(message: string, details: InboxServiceErrorDetails) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.status = details.status ?? null;
    this.isTransient = details.isTransient;
    this.field = details.field ?? null;
    this.retryAfterMs = details.retryAfterMs ?? null;
  }
}

export interface InboxServiceErrorDetails {
  readonly status?: number;
  readonly isTransient: boolean;
  readonly field?: string | null;
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
}
