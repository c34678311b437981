import type { OnceboxErrorInfo } from "../../errors.js";

/** The inbox service refused a call, could not be reached, or answered what the contract does not know. */
export class InboxServiceError extends Error implements OnceboxErrorInfo {
  readonly code = "ONCEBOX_INBOX_SERVICE";
  override readonly name = "InboxServiceError";
  /** Of the last answer; null when there was none. */
  readonly status: number | null;
  /** The same call may succeed later. The client has repeated it as often as it may. */
  readonly isTransient: boolean;
  /** How long the service wants callers to wait, if it said so. */
  readonly retryAfterMs: number | null;

  constructor(message: string, details: InboxServiceErrorDetails) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.status = details.status ?? null;
    this.isTransient = details.isTransient;
    this.retryAfterMs = details.retryAfterMs ?? null;
  }
}

export interface InboxServiceErrorDetails {
  readonly status?: number;
  readonly isTransient: boolean;
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
}
