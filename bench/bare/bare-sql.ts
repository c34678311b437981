import type { IncomingMessage } from "../../src/index.js";

/** What a competent engineer would write by hand instead of the inbox's `receive` and `enqueue`. */
export interface BareIngest {
  /** Whether it was new. */
  receive(message: IncomingMessage): Promise<boolean>;
  /** How many were new; all or none are stored. */
  receiveMany(messages: readonly IncomingMessage[]): Promise<number>;
  close(): Promise<void>;
}

export interface BareMessage {
  readonly id: number;
  readonly source: string;
  readonly message_id: string;
  readonly topic: string;
  readonly payload: string;
  readonly attempt: number;
}

/** The fastest hand-written loop over a queue of narrow rows, on one connection. */
export interface BareQueue {
  claim(limit: number): Promise<readonly BareMessage[]>;
  /** How many were still this owner's. */
  ack(messages: readonly BareMessage[]): Promise<number>;
  close(): Promise<void>;
}
