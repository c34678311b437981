import type { Envelope } from "../../../src/messaging/envelope.js";
import type {
  Transport,
  TransportCall,
  TransportDestination,
  TransportResponse,
} from "../../../src/messaging/transports/transport.js";

/** The receiver does not look into the message: its signature, its form or its size is not accepted. */
export interface Refused {
  readonly refused: 400 | 401 | 413;
}

/** What the suite lets a receiver do with a message. */
export type ContractReceiver = (
  message: Envelope,
  call: TransportCall,
) => Promise<TransportResponse | Refused>;

/** The network between transport and receiver, for the tests that cut it. */
export interface TransportNetwork {
  /** All connections end after so many bytes of requests or of responses, and no new one is made. */
  cutAfter(limits: { readonly requestBytes?: number; readonly responseBytes?: number }): void;
  /** New connections are made again. */
  mend(): Promise<void>;
  /** Resolves when no connection is open. */
  allClosed(): Promise<void>;
}

/** A transport and a receiver that it reaches. */
export interface TransportSetup {
  readonly transport: Transport;
  readonly destination: TransportDestination;
  /** Nothing serves the destination's address until `startReceiver`. */
  stopReceiver(): Promise<void>;
  startReceiver(): Promise<void>;
  /** Undefined where there is no network. The tests that need one are skipped. */
  readonly network?: TransportNetwork;
  /** Stops the receiver. The suite closes the transport itself. */
  close(): Promise<void>;
}

export interface TransportHarness {
  readonly name: string;
  /** Starts a receiver that calls `receive` for every message that arrives. */
  open(receive: ContractReceiver): Promise<TransportSetup>;
}
