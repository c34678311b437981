import { openSync, writeSync } from "node:fs";
import type {
  Inbox,
  InboxKey,
  InboxMessage,
  OwnerToken,
  Settlement,
  SqlExecutor,
} from "../../../src/index.js";
import { clock, type Settled, type Settling, type SoakRecord } from "./records.js";

/** The inbox, with every claim, renewal and settlement recorded when the database has confirmed it. */
export function recordedInbox(inbox: Inbox, { write }: Recorder): Inbox {
  /** Acknowledgements in transactions that have not ended. */
  const uncommitted = new Map<SqlExecutor, NewRecord[]>();

  const settled = async (
    what: Settling | "renew",
    owner: OwnerToken,
    messages: readonly unknown[],
    call: () => Promise<Settlement<InboxKey>>,
    tx?: SqlExecutor,
  ): Promise<Settlement<InboxKey>> => {
    const sentAt = clock();
    try {
      const settlement = await call();
      const { changed, lost }: Settled = {
        changed: seqsOf(settlement.changed),
        lost: seqsOf(settlement.lost),
      };
      const record: NewRecord =
        what === "renew"
          ? { kind: "renew", sentAt, owner, changed, lost }
          : { kind: "settle", what, sentAt, owner, changed, lost };
      if (tx === undefined) write(record);
      else uncommitted.get(tx)?.push(record);
      return settlement;
    } catch (error) {
      write({ kind: "failed", what, sentAt, owner, seqs: seqsOf(messages) });
      throw error;
    }
  };

  return {
    ...inbox,
    async claim(options) {
      const sentAt = clock();
      const messages = await inbox.claim(options);
      if (messages.length > 0) write({ kind: "claim", sentAt, owner: options.owner, seqs: seqsOf(messages) });
      return messages;
    },
    renew: (owner, messages, leaseMs, call) =>
      settled("renew", owner, messages, () => inbox.renew(owner, messages, leaseMs, call)),
    ack: (owner, messages, call) =>
      settled("ack", owner, messages, () => inbox.ack(owner, messages, call), call?.tx),
    abandon: (owner, messages, call) =>
      settled("abandon", owner, messages, () => inbox.abandon(owner, messages, call)),
    fail: (owner, messages, error, call) =>
      settled("fail", owner, messages, () => inbox.fail(owner, messages, error, call)),
    release: (owner, messages, call) =>
      settled("release", owner, messages, () => inbox.release(owner, messages, call)),
    async transaction(work, options) {
      const acks: NewRecord[] = [];
      const result = await inbox.transaction((tx) => {
        uncommitted.set(tx, acks);
        return work(tx).finally(() => uncommitted.delete(tx));
      }, options);
      for (const ack of acks) write(ack);
      return result;
    },
  };
}

/** Of messages, or of messages to abandon. */
const seqsOf = (messages: readonly unknown[]): readonly number[] =>
  messages.map((entry) => {
    const message = (entry as { readonly message?: unknown }).message ?? entry;
    return (message as InboxMessage).seq;
  });

type WithoutTime<Of> = Of extends { readonly kind: "start" }
  ? Omit<Of, "at" | "seenAt">
  : Of extends SoakRecord
    ? Omit<Of, "at">
    : never;

type NewRecord = WithoutTime<SoakRecord>;

interface Recorder {
  write(record: NewRecord): void;
}

/** How often the process notes that it runs. */
const heartbeatMs = 20;
/** A longer time without a heartbeat is recorded. */
const gapMs = 100;

/** Appends records to a file, one write each: the file of a killed process is whole up to its death. */
export function recorder(file: string): Recorder {
  const records = openSync(file, "a");
  const append = (record: object): void => void writeSync(records, `${JSON.stringify(record)}\n`);
  let seenAt = clock();
  /** Returns the time, and when the process was seen before. */
  const see = (): { at: number; before: number } => {
    const at = clock();
    const before = seenAt;
    if (at - before > gapMs) append({ kind: "gap", from: before, at });
    seenAt = at;
    return { at, before };
  };
  setInterval(see, heartbeatMs).unref();
  return {
    write(record) {
      const { at, before } = see();
      append(record.kind === "start" ? { ...record, at, seenAt: before } : { ...record, at });
    },
  };
}
