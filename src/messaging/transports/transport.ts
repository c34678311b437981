import { abortAfter } from "../../base/async.js";
import { jsonText, withoutPayload } from "../../base/redaction.js";
import { knownByCode, type OnceboxErrorInfo } from "../../errors.js";
import { optionalCount, refuseUnknown, requireDuration } from "../../queue/arguments.js";
import type { Envelope, SignedEnvelope } from "../envelope.js";
import { signedEnvelope } from "../sign-envelope.js";

/** What the receiver returned for one message. */
export interface TransportResponse {
  readonly acknowledged: boolean;
  /** The receiver handled the message before. That counts as delivered. */
  readonly duplicateDetected: boolean;
  /** The response of a command. */
  readonly payload?: unknown;
  /** Why the message was not acknowledged. It contains no payload and no secret. */
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

/** Options of one call of a transport. */
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

/** Certificates in PEM. A client that gives `ca` trusts only these; one that gives `cert` and `key` shows them to the server. */
export interface TlsMaterial {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
}

export interface TransportOptions {
  /** The longest time of one attempt, from the first byte to the last: 30 s by default. */
  readonly timeoutMs?: number;
  /** Larger responses are refused while they are read: 4 MiB by default. */
  readonly maxResponseBytes?: number;
  readonly tls?: TlsMaterial;
}

export const transportDefaults = { timeoutMs: 30_000, maxResponseBytes: 4 * 1_024 * 1_024 } as const;

/** Refuses unknown and bad options, and fills in the defaults. */
export function checkedTransportOptions<T extends TransportOptions>(
  options: T,
  ownNames: readonly string[],
  what: string,
): T & typeof transportDefaults {
  refuseUnknown(options, ["timeoutMs", "maxResponseBytes", "tls", ...ownNames], what);
  const checked = { ...transportDefaults, ...options };
  requireDuration(checked.timeoutMs, `${what}: timeoutMs`);
  optionalCount(checked.maxResponseBytes, `${what}: maxResponseBytes`, 1);
  if (options.tls !== undefined) refuseUnknown(options.tls, ["ca", "cert", "key"], `${what}: tls`);
  return checked;
}

/** Signs a message for its destination. Each attempt has a timestamp, and so a signature, of its own. */
export const signedFor = (message: Envelope, { serviceId, secrets }: TransportDestination): SignedEnvelope =>
  signedEnvelope(message, { destination: serviceId, secrets, now: new Date() });

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

/** The running calls of one transport. Each has a time limit, and `close` ends all of them. */
export function openCalls(timeoutMs: number) {
  const running = new Map<AbortController, Promise<unknown>>();
  let isClosed = false;
  const closed = (receiver: string) =>
    new TransportError(`Nothing can be sent to ${receiver}: the transport is closed.`);

  return {
    async run<T>(
      receiver: string,
      outer: AbortSignal,
      work: (signal: AbortSignal) => Promise<T>,
    ): Promise<T> {
      outer.throwIfAborted();
      if (isClosed) throw closed(receiver);
      const stop = new AbortController();
      const abort = () => stop.abort(outer.reason);
      outer.addEventListener("abort", abort, { once: true });
      const tooLate = () => new TransportError(`${receiver} did not respond within ${timeoutMs} ms.`);
      const call = abortAfter(timeoutMs, work, tooLate, stop.signal);
      running.set(stop, call);
      try {
        return await call;
      } catch (error) {
        throw stop.signal.aborted ? stop.signal.reason : error;
      } finally {
        running.delete(stop);
        outer.removeEventListener("abort", abort);
      }
    },
    /** Aborts the calls that run, waits for them, and refuses new ones. */
    async close(): Promise<void> {
      isClosed = true;
      for (const stop of running.keys()) stop.abort(closed("the receiver"));
      await Promise.allSettled(running.values());
    },
  };
}

const refusals: Readonly<Record<number, { readonly why: string; readonly permanent: boolean }>> = {
  400: { why: "it is malformed for this receiver. A retry cannot help", permanent: true },
  401: {
    why: "compare the secrets and the clocks of both services, and the receiver's sources with their endpoints",
    permanent: false,
  },
  413: { why: "it is too large. A retry cannot help", permanent: true },
};

/** The response for a status that refuses the message, or undefined for any other status. */
export function refusalOf(status: number, receiver: string): TransportResponse | undefined {
  const refusal = refusals[status];
  if (refusal === undefined) return undefined;
  const { why, permanent } = refusal;
  const error = `${receiver} refused the message with status ${status}: ${why}.`;
  return { acknowledged: false, duplicateDetected: false, error, ...(permanent ? { permanent } : {}) };
}

/** Characters of a receiver's error that are kept. */
const longestError = 500;

/** Checks the members of an acknowledgement. An error's text is cut, and cleaned of what it quotes of the payload. */
export function checkedResponse(
  { acknowledged, duplicateDetected = false, payload, error, permanent }: Readonly<Record<string, unknown>>,
  receiver: string,
  message: Envelope,
): TransportResponse {
  if (typeof acknowledged !== "boolean" || typeof duplicateDetected !== "boolean")
    throw malformedAcknowledgement(receiver);
  const response = { acknowledged, duplicateDetected, ...(payload === undefined ? {} : { payload }) };
  if (acknowledged) return response;
  const reason = typeof error === "string" && error !== "" ? error.slice(0, longestError) : "no reason given";
  const text = withoutPayload(reason, jsonText(message.payload));
  const refused = { ...response, error: `${receiver} did not process the message: ${text}` };
  // Anything but true, such as a value of a later version, means that the message is sent again: that loses nothing.
  return permanent === true ? { ...refused, permanent } : refused;
}

export const malformedAcknowledgement = (receiver: string): TransportError =>
  new TransportError(`${receiver} returned something that is not an acknowledgement.`);
