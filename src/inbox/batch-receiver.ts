import type { Tracing } from "../base/tracing.js";
import { optionalText, requireList } from "../queue/arguments.js";
import type { InboxKey } from "../queue/message.js";
import type { AnnounceDead } from "../sql/announce-dead.js";
import { type ReceivingDialect, status } from "../sql/dialect.js";
import type { SqlExecutor, SqlParams } from "../sql/driver.js";
import { withTrace } from "../sql/message-content.js";
import type { StatementRunner } from "../sql/statement-runner.js";
import { type BatchMessage, type IncomingMessage, keyTextOf, toParams } from "./incoming-message.js";
import type { InboxCallOptions, ReceiveOutcome, Receiver } from "./receiver.js";

export interface BatchReceiving {
  readonly dialect: ReceivingDialect;
  readonly tracing: Tracing | undefined;
  readonly runner: Pick<StatementRunner, "atomically">;
  /** No two messages may have the same key. */
  readonly receiveMany: (
    incoming: readonly SqlParams[],
    call: InboxCallOptions,
  ) => Promise<readonly ReceiveOutcome[]>;
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

  const sendBatches = async (
    entries: readonly Entry[],
    call: InboxCallOptions,
  ): Promise<ReceiveOutcome[]> => {
    const outcomes: ReceiveOutcome[] = new Array(entries.length);
    for (const batch of batchesOf(entries)) {
      const received = await receiveMany(
        batch.map(({ params }) => params),
        call,
      );
      for (const [at, { index }] of batch.entries()) outcomes[index] = received[at]!;
    }
    return outcomes;
  };

  /** New content that cannot be handled is dead at once. What was handled before stays done. */
  const buried = async (
    message: BatchMessage,
    outcome: ReceiveOutcome,
    call: InboxCallOptions,
  ): Promise<ReceiveOutcome> => {
    const isNew = message.dead !== undefined && (outcome === "enqueued" || outcome === "conflict");
    return isNew && (await mark(message, status.dead, message.dead, call)) ? "dead" : outcome;
  };

  return async (messages, call = {}) => {
    requireList(messages, "messages");
    if (messages.length === 0) return [];
    const entries = messages.map((message, index): Entry => {
      optionalText(message?.dead, "dead", longestReason);
      const params = toParams(dialect, withTrace(message, tracing));
      return { params, index, key: keyTextOf(params) };
    });
    const within = async (tx: SqlExecutor | undefined) => {
      const received = await sendBatches(entries, { ...call, tx });
      const outcomes: ReceiveOutcome[] = [];
      for (const [index, message] of messages.entries())
        outcomes.push(await buried(message, received[index]!, { ...call, tx }));
      return { outcomes, died: messages.filter((_, index) => outcomes[index] !== received[index]) };
    };
    const isOneStatement =
      messages.every(({ dead }) => dead === undefined) && batchesOf(entries).length === 1;
    const { outcomes, died } =
      isOneStatement || call.tx !== undefined ? await within(call.tx) : await runner.atomically(within, call);
    for (const [index, message] of messages.entries()) logReceived(message, outcomes[index]!);
    for (const { source, messageId, dead } of died) announceDead([{ source, messageId }], dead!);
    return outcomes;
  };
}

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
