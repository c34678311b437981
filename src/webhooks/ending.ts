import type { PlainResponse } from "../base/plain-http.js";
import type { BodyRefusal } from "../base/read-body.js";
import { safeReason } from "../base/safe-reason.js";
import type { ReceiveOutcome } from "../inbox/receiver.js";
import { refusedResponse } from "./responses.js";
import type { ReceivedWebhook } from "./route-options.js";
import type { RefusalName } from "./schemes/scheme.js";

/** The result of a request: the response, and the fields to log and count. */
export interface Ending {
  readonly response: PlainResponse;
  readonly outcome: ReceiveOutcome | "handshake" | "empty" | RefusalName;
  /** For the log only. */
  readonly reason?: string;
  readonly webhook?: ReceivedWebhook;
  /** How many messages of a split delivery had which outcome. */
  readonly counts?: Readonly<Partial<Record<ReceiveOutcome, number>>>;
  readonly refusal?: { readonly name: RefusalName; readonly headers: Readonly<Record<string, string>> };
}

export const refuse = (name: RefusalName, reason: string, headers: Record<string, string> = {}): Ending => ({
  response: refusedResponse(name, headers),
  outcome: name,
  reason,
  refusal: { name, headers },
});

export const unreadBodies: Readonly<Record<BodyRefusal, readonly [RefusalName, string]>> = {
  "too large": ["too large", "body above the limit"],
  malformed: ["bad request", "the body could not be read"],
  "too slow": ["too slow", "the body did not arrive in time"],
  "too many": ["unavailable", "too many bodies are being read"],
};

/** An unavailable secret store is like an unavailable database: the provider tries again. */
export const failureOf = (error: unknown): Ending => refuse("unavailable", safeReason(error));
