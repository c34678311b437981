import { knownByCode, type OnceboxErrorInfo } from "../errors.js";

/** Another consumer holds the key. Let the broker deliver the message again: it is then processed, or free. */
export class InboxKeyBusyError extends Error implements OnceboxErrorInfo {
  static readonly code = "ONCEBOX_INBOX_KEY_BUSY";
  static {
    knownByCode(InboxKeyBusyError);
  }

  readonly code = InboxKeyBusyError.code;
  override readonly name = "InboxKeyBusyError";
  readonly key: string;
  /** When the holder's lease ends, unless it is renewed; by the clock of the store. */
  readonly expiresAt: Date | null;

  constructor(key: string, expiresAt: Date | null) {
    const until = expiresAt === null ? "" : ` until ${expiresAt.toISOString()}`;
    super(`Another consumer is handling this message${until}. Let the broker deliver it again.`);
    this.key = key;
    this.expiresAt = expiresAt;
  }
}
