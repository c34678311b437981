import type { Logger, LoggerOption } from "../../base/logger.js";
import type { Route } from "../../base/node-http.js";
import type { PlainRequest, PlainResponse, PlainRoute } from "../../base/plain-http.js";
import { InvalidArgumentError } from "../../errors.js";
import { schemeOf } from "./address.js";
import type { TlsMaterial } from "./transport-options.js";

/** The part of a service's receiver that a listener needs. */
export interface MessageReceiver {
  readonly respond: PlainRoute;
  readonly fetch: Route;
  /** Takes a message at any path. */
  handle(request: Pick<PlainRequest, "method" | "headers" | "body">): Promise<PlainResponse>;
  /** It refuses larger messages. */
  readonly maxBodyBytes: number;
}

export interface ListenOptions {
  /** `http://127.0.0.1:4001`, `https:`, `unix:`, `pipe:`, `grpc:` or `grpcs:`. Port 0 takes a free one. */
  readonly address: string;
  /** What responds: `service.receiver`. Or give `fetch`. */
  readonly receiver?: MessageReceiver;
  /** A function of your own that responds, for example one around `service.receiver.fetch`. */
  readonly fetch?: Route;
  /** For `https:` and `grpcs:`. With `ca`, clients must show a certificate that it signed. */
  readonly tls?: TlsMaterial;
  /** How long `close` waits for running requests before it cuts them off: 10 s by default. */
  readonly stopMs?: number;
  /** gRPC with `fetch` only: the path of the requests that it gets. `/_rf/receive` by default. */
  readonly path?: string;
  readonly logger?: LoggerOption;
}

export interface ListenSettings
  extends Required<Omit<ListenOptions, "tls" | "receiver" | "logger">>,
    Pick<ListenOptions, "tls" | "receiver"> {
  readonly logger: Logger;
}

export interface Listener {
  /** The address for senders, with the real port. */
  readonly address: string;
  /** Takes no new messages, waits for those that are being handled, and ends all connections. */
  close(): Promise<void>;
}

/** `https:` and `grpcs:` need a certificate. */
export function requireCertificate({ tls, address }: ListenSettings): TlsMaterial {
  if (tls?.cert !== undefined && tls.key !== undefined) return tls;
  throw new InvalidArgumentError(`listen: ${schemeOf(address)}// needs tls: { cert, key }.`);
}
