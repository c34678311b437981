import { defined } from "../base/defined.js";
import type { Tracing } from "../base/tracing.js";
import { optionalText, requireList } from "../queue/arguments.js";
import { callInTransaction, checkCall } from "../queue/check-call.js";
import type { InboxKey } from "../queue/message.js";
import type { AnnounceDead } from "../sql/announce-dead.js";
import { type ReceivingDialect, status } from "../sql/dialect.js";
import type { SqlExecutor, SqlParams } from "../sql/driver.js";
import { withPayload } from "../sql/json-data.js";
import { withTrace } from "../sql/message-content.js";
import type { StatementRunner } from "../sql/statement-runner.js";
import { storedError } from "../sql/stored-text.js";
import { type BatchMessage, type IncomingMessage, keyTextOf, toParams } from "./incoming-message.js";
import type { InboxCallOptions, ReceiveOutcome, Receiver } from "./receiver.js";

export interface Received {
  readonly outcome: ReceiveOutcome;
  /** It came as dead, and was stored so. */
  readonly buried: boolean;
}

export interface BatchReceiving {
  readonly dialect: ReceivingDialect;
  readonly tracing: Tracing | undefined;
  readonly runner: Pick<StatementRunner, "atomically">;
  /** No two messages may have the same key. */
  readonly receiveMany: (
    incoming: readonly SqlParams[],
    call: InboxCallOptions,
  ) => Promise<readonly Received[]>;
  readonly mark: (
    key: InboxKey,
    to: number,
    error: string | undefined,
    call: InboxCallOptions,
  ) => Promise<boolean>;
  readonly logReceived: (message: IncomingMessage, outcome: ReceiveOutcome) => void;
  readonly announceDead: AnnounceDead<InboxKey>;
}

const longestReason = 4_000;

/** Receives messages that arrived together: in one statement, or in one transaction where it takes several. */
export function batchReceiver(parts: BatchReceiving): Receiver["enqueue"] {
  const { dialect, tracing, runner, receiveMany, mark, logReceived, announceDead } = parts;

  const buries = dialect.buries === true;

  const sendBatches = async (entries: readonly Entry[], call: InboxCallOptions): Promise<Received[]> => {
    const all: Received[] = new Array(entries.length);
    for (const batch of batchesOf(entries)) {
      const received = await receiveMany(
        batch.map(({ params }) => params),
        call,
      );
      for (const [at, { index }] of batch.entries()) all[index] = received[at]!;
    }
    return all;
  };

  /** New content that cannot be handled is dead at once. What was handled before stays done. */
  const buried = async (
    message: BatchMessage,
    received: Received,
    call: InboxCallOptions,
  ): Promise<ReceiveOutcome> => {
    const { outcome } = received;
    if (received.buried) return "dead";
    if (buries) return outcome;
    const isNew = message.dead !== undefined && (outcome === "enqueued" || outcome === "conflict");
    return isNew && (await mark(message, status.dead, message.dead, call)) ? "dead" : outcome;
  };

  return async (given, call = {}) => {
    checkCall(call, callInTransaction, "enqueue");
    requireList(given, "messages");
    if (given.length === 0) return [];
    const messages = given.map((one) => withPayload<BatchMessage>(one));
    const entries = messages.map((message, index): Entry => {
      const { dead, ...content } = message ?? {};
      optionalText(dead, "dead", longestReason);
      const params = toParams(dialect, withTrace(content as IncomingMessage, tracing));
      const key = keyTextOf(params);
      return { params: buries && dead !== undefined ? { ...params, ...reasonOf(dead) } : params, index, key };
    });
    const within = async (tx: SqlExecutor | undefined) => {
      const inside = { ...call, ...defined({ tx }) };
      const received = await sendBatches(entries, inside);
      const outcomes: ReceiveOutcome[] = [];
      for (const [index, message] of messages.entries())
        outcomes.push(await buried(message, received[index]!, inside));
      return { outcomes, died: messages.filter((_, index) => outcomes[index] !== received[index]!.outcome) };
    };
    const isOneStatement =
      (buries || messages.every(({ dead }) => dead === undefined)) && batchesOf(entries).length === 1;
    const { outcomes, died } =
      isOneStatement || call.tx !== undefined ? await within(call.tx) : await runner.atomically(within, call);
    for (const [index, message] of messages.entries()) logReceived(message, outcomes[index]!);
    for (const { source, messageId, dead } of died) announceDead([{ source, messageId }], dead!);
    return outcomes;
  };
}

/** Without a reason the text is empty, and not null: the message is dead all the same. */
const reasonOf = (dead: string) => {
  const stored = storedError(dead);
  return { ...stored, error: stored.error ?? "" };
};

interface Entry {
  readonly params: SqlParams;
  readonly index: number;
  readonly key: string;
}

/** One statement cannot change a row twice, so each repetition of a key is put in a later batch. */
function batchesOf(entries: readonly Entry[]): readonly Entry[][] {
  const batches: Entry[][] = [];
  const seen = new Map<string, number>();
  for (const entry of entries) {
    const batch = seen.get(entry.key) ?? 0;
    seen.set(entry.key, batch + 1);
    batches[batch] ??= [];
    batches[batch].push(entry);
  }
  return batches;
}
