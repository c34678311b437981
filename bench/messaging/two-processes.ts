/** With oncebox, or by hand. */
export type SideName = "oncebox" | "bare";

/** Messages on their way at once, and connections to a database, on both sides. */
export const concurrency = 10;

/** A round takes about a second. One that takes longer than this has failed. */
export const longestRoundMs = 60_000;

/** The same for all processes of a machine, in ms. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** What a receiver returns each time it is asked. */
export interface ReceiverAnswer {
  /** Where it listens. */
  readonly address: string;
  /** When handlers started since it was asked last, by `monotonicMs`. */
  readonly startedAt: readonly number[];
}

/** What a sender returns when it has sent so many messages. */
export interface SenderAnswer {
  /** How many it sent in a second. */
  readonly rate: number;
  /** When each was committed, by `monotonicMs`, and how long its call took. Only where one was sent after the other. */
  readonly committedAt: readonly number[];
  readonly tookMs: readonly number[];
}
