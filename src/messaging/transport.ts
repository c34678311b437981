import type { Envelope } from "./envelope.js";

/** What the receiver returned for one message. */
export interface TransportResponse {
  readonly acknowledged: boolean;
  /** The receiver handled the message before. That counts as delivered. */
  readonly duplicateDetected: boolean;
  /** The response of a command. */
  readonly payload?: unknown;
  /** Why the message was not acknowledged. It names no payload and no secret. */
  readonly error?: string;
  /** The receiver can never take this message: it is too large, say, or its handler threw `permanentFailure`. No retry can help. */
  readonly permanent?: boolean;
}

/** Where a message goes and how it is signed. */
export interface TransportDestination {
  readonly serviceId: string;
  readonly address: string;
  /** The message is signed with the first secret. In-process delivery needs none. */
  readonly secrets: readonly string[];
}

export interface TransportCall {
  /** Aborts the call. Every transport passes it on to its socket. */
  readonly signal: AbortSignal;
}

/**
 * Delivers messages to other services. `send` resolves with what the receiver returned. It rejects when the receiver could
 * not be reached or did not respond, and the message is sent again later.
 */
export interface Transport {
  /** The schemes of the addresses that it serves, such as `["http:", "https:"]`. */
  readonly schemes: readonly string[];
  /** Throws for an address that it cannot send to. The service calls it when it is built. */
  check?(address: string): void;
  send(message: Envelope, destination: TransportDestination, call: TransportCall): Promise<TransportResponse>;
  close(): Promise<void>;
}
