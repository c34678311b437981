import { omitUndefined } from "../base/defined.js";
import { sleep } from "../base/timers.js";
import { InvalidArgumentError } from "../errors.js";
import {
  callInTransaction,
  checkCall,
  optionalCount,
  plainCall,
  refuseUnknown,
  requireBatchSize,
  requireDuration,
  requireList,
} from "../queue/arguments.js";
import { ownerToken } from "../queue/leases.js";
import type { QueueMessage } from "../queue/message.js";
import { mostAttempts } from "../queue/retry-policy.js";
import type { Abandonment, AckOptions, Settlement } from "../queue/work-store.js";
import { reasonOf } from "./dead-letters.js";
import type { Rows } from "./dialect.js";
import { isTrue, rowNumber, type SqlExecutor, type SqlParams, type SqlStatement } from "./driver.js";
import { storedError } from "./message-content.js";
import { inChunks } from "./statement-runner.js";
import type { Operations, QueueParts } from "./store.js";
import { defaults } from "./store-options.js";

/** A claim that finds only messages that wait for a limit waits once for the next token: this long at most, so that a run goes on. */
const longestTokenWaitMs = 1_000;
/** At a limit of hundreds per second, each token for itself would be a round trip. */
const shortestTokenWaitMs = 50;

export function claimOperation<Key extends object, Message extends QueueMessage & Key, State extends string>(
  parts: QueueParts<Key, Message, State>,
): Operations<Key, Message, State, "claim"> {
  const { db, shape, statements, options, runner, announceDead } = parts;

  /** The claimed messages of the rows. The claim made the other rows dead; `onDead` is called for them. */
  const messagesOf = (rows: Rows, owner: string): Message[] => {
    const claimed: Message[] = [];
    for (const row of rows) {
      if (row.seq === null) continue;
      const verdict = row.verdict ?? "claimed";
      if (verdict === "claimed") claimed.push(shape.toMessage(row, db.dialect, owner));
      else announceDead([shape.keyOf(row)], reasonOf(verdict));
    }
    return claimed.sort((a, b) => a.seq - b.seq);
  };

  return {
    async claim(claim) {
      checkCall(claim ?? {}, ["owner", "leaseMs", "batchSize", "signal"], "claim");
      const owner = ownerToken(claim?.owner);
      const leaseMs = claim.leaseMs ?? defaults.leaseMs;
      const limit = claim.batchSize ?? defaults.batchSize;
      requireDuration(leaseMs, "leaseMs");
      requireBatchSize(limit);
      let hasWaited = false;
      for (;;) {
        const rows = await runner.execute(statements.claim, { owner, lease_ms: leaseMs, limit }, claim);
        const claimed = messagesOf(rows, owner);
        options.logger.debug("claim", { claimed: claimed.length });
        if (claimed.length > 0 || rows.length === 0) return claimed;
        const { seq, verdict, wait_ms } = rows[0]!;
        if (seq !== null) continue; // the claim made every row dead, and there may be claimable messages after them
        if (verdict === "paused" || hasWaited || Number(wait_ms) > longestTokenWaitMs) return [];
        hasWaited = true;
        await sleep(Math.max(Number(wait_ms), shortestTokenWaitMs), claim.signal);
      }
    },
  };
}

type SettleNames = "ack" | "abandon" | "fail" | "release" | "renew";

/** The operations that settle messages; and `renew`, which extends their leases. */
export function settleOperations<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(parts: QueueParts<Key, Message, State>): Operations<Key, Message, State, SettleNames> {
  const { kind, shape, statements, options, announceDead } = parts;
  const settle = settleMessages(parts);

  return {
    async ack(owner, messages, call = {}) {
      checkCall(call, callInTransaction, "ack");
      const params = { owner: ownerToken(owner), processed_by: options.processedBy ?? owner };
      return settle(messages, call, { verb: "ack", statement: statements.ack, params });
    },

    async abandon(owner, messages, call = {}) {
      checkCall(call, ["maxAttempts", "delayMs", "error", "signal"], "abandon");
      const token = ownerToken(owner);
      requireList(messages, "messages");
      optionalCount(call.maxAttempts, "maxAttempts", 1, mostAttempts);
      const items = new Map<string, Abandonment<Key>>();
      for (const entry of messages) {
        const own: Abandonment<Key> = isAbandonment<Key>(entry) ? entry : { message: entry };
        const delayMs = own.delayMs ?? call.delayMs;
        if (delayMs !== undefined) requireDuration(delayMs, "delayMs");
        items.set(shape.keyText(shape.key(own.message)), { ...own, delayMs, error: own.error ?? call.error });
      }
      const keys = [...items.values()].map((item) => item.message);
      const result = await settle(keys, call, {
        verb: "abandon",
        statement: statements.abandon,
        params: { owner: token, ...omitUndefined({ max_attempts: call.maxAttempts }) },
        itemOf(key, seq) {
          const { delayMs, error, costsAttempt = true } = items.get(shape.keyText(key))!;
          const row = { seq, delay_ms: delayMs ?? null, ...storedError(error) };
          return costsAttempt ? row : { ...row, attempts: 0 };
        },
      });
      for (const key of result.dead)
        announceDead([key], items.get(shape.keyText(key))!.error ?? "The last attempt was abandoned.");
      return result;
    },

    async fail(owner, messages, error, call = {}) {
      checkCall(call, plainCall, "fail");
      const token = ownerToken(owner);
      const isAbsent = kind === "outbox" && (error === undefined || error === null);
      if (!isAbsent && typeof error !== "string")
        throw new InvalidArgumentError("fail: error must be a string that says why.");
      const params = { owner: token, ...storedError(error) };
      const result = await settle(messages, call, { verb: "fail", statement: statements.fail, params });
      announceDead(result.changed, error || "Failed without an error.");
      return { ...result, dead: result.changed };
    },

    async release(owner, messages, call = {}) {
      checkCall(call, plainCall, "release");
      const params = { owner: ownerToken(owner) };
      return settle(messages, call, { verb: "release", statement: statements.release, params });
    },

    async renew(owner, messages, leaseMs, call = {}) {
      checkCall(call, plainCall, "renew");
      requireDuration(leaseMs, "leaseMs");
      const params = { owner: ownerToken(owner), lease_ms: leaseMs };
      return settle(messages, call, { verb: "renew", statement: statements.renew, params });
    },
  };
}

const isAbandonment = <Key>(entry: Key | Abandonment<Key>): entry is Abandonment<Key> =>
  typeof entry === "object" && entry !== null && "message" in entry;

interface SettleOptions<Key> {
  /** For logs. */
  readonly verb: string;
  readonly statement: SqlStatement;
  readonly params: SqlParams;
  /** What the statement gets of each message in `:items`; its row number by default. */
  readonly itemOf?: (message: Key, seq: number) => unknown;
}

export type SettleMessages<Key> = (
  messages: readonly Key[],
  call: AckOptions<SqlExecutor>,
  options: SettleOptions<Key>,
) => Promise<Settlement<Key>>;

/** Runs a statement on the state rows of messages, and tells which of them it changed. See docs/decisions/0003. */
export function settleMessages<Key extends object, Message extends QueueMessage & Key, State extends string>({
  shape,
  statements,
  options: { logger },
  runner,
  db,
}: QueueParts<Key, Message, State>): SettleMessages<Key> {
  /** By row number, ascending, each message once. A claimed message brings its row number; a plain key is looked up. */
  const byRowNumber = async (
    messages: readonly Key[],
    call: AckOptions<SqlExecutor>,
  ): Promise<ReadonlyMap<number, Key>> => {
    const bySeq = new Map<number, Key>();
    const unknown = new Map<string, Key>();
    for (const message of messages) {
      const seq = seqOf(message);
      if (typeof seq === "number") bySeq.set(seq, message);
      else unknown.set(shape.keyText(shape.key(message)), message);
    }
    if (unknown.size > 0) {
      const items = JSON.stringify([...unknown.values()].map(shape.keyParams));
      for (const row of await runner.executeIn(call.tx, statements.resolve, { items }, call)) {
        const seq = rowNumber(row.seq);
        if (!bySeq.has(seq)) bySeq.set(seq, unknown.get(shape.keyText(shape.keyOf(row)))!);
      }
    }
    return new Map([...bySeq].sort(([a], [b]) => a - b));
  };

  const settlementOf = (
    messages: readonly Key[],
    bySeq: ReadonlyMap<number, Key>,
    rows: Rows,
  ): Settlement<Key> => {
    const settled = changedSeqs(rows, bySeq);
    const changed = [...bySeq].filter(([seq]) => settled.has(seq)).map(([, message]) => message);
    const dead = rows.filter((row) => isTrue(row.dead)).map((row) => bySeq.get(rowNumber(row.seq))!);
    if (changed.length === messages.length) return { changed, dead, lost: [] };
    const lost = new Map(messages.map((message) => [shape.keyText(message), message]));
    for (const message of changed) lost.delete(shape.keyText(message));
    return { changed, dead, lost: [...lost.values()] };
  };

  return async (messages, call, { verb, statement, params, itemOf }) => {
    requireList(messages, "messages");
    if (messages.length === 0) return { changed: [], lost: [], dead: [] };
    const bySeq = await byRowNumber(messages, call);
    const items = itemOf === undefined ? [...bySeq.keys()] : [...bySeq].map(([seq, key]) => itemOf(key, seq));
    const send = (tx: SqlExecutor | undefined, some: readonly unknown[]) =>
      runner.executeIn(tx, statement, { ...params, items: JSON.stringify(some), count: some.length }, call);
    const { mostItems } = db.dialect;
    const rows =
      items.length === 0 ? [] : await inChunks(runner, items, { mostItems, tx: call.tx, call }, send);
    const result = settlementOf(messages, bySeq, rows);
    const { changed, lost, dead } = result;
    logger.debug(verb, { changed: changed.length, lost: lost.length, dead: dead.length });
    if (lost.length > 0 && "owner" in params)
      logger.warn(`${verb}: no longer held by this owner`, { lost: lost.length });
    return result;
  };
}

/** A row for each message that changed, or one row: `all_changed`, and `seqs` of the changed messages when not all changed. */
function changedSeqs(rows: Rows, bySeq: ReadonlyMap<number, unknown>): { has(seq: number): boolean } {
  const [first] = rows;
  if (first?.all_changed === undefined) return new Set(rows.map((row) => rowNumber(row.seq)));
  if (isTrue(first.all_changed)) return bySeq;
  return new Set(((first.seqs as readonly unknown[] | null) ?? []).map(rowNumber));
}

const seqOf = (message: object): unknown => (message as { seq?: unknown } | null)?.seq;

/** `replay` of dead messages by their keys. That of operators, which is recorded, is in src/operators. */
export function replayOperation<Key extends object, Message extends QueueMessage & Key, State extends string>(
  parts: QueueParts<Key, Message, State>,
): Operations<Key, Message, State, "replay"> {
  const settle = settleMessages(parts);
  return {
    async replay(messages, call = {}) {
      refuseUnknown(call, ["ttlMs", "signal"], "replay");
      const { ttlMs, signal } = call;
      if (ttlMs !== undefined) requireDuration(ttlMs, "ttlMs");
      const params = { ttl_ms: ttlMs ?? null };
      const statement = parts.statements.replay;
      const result = await settle(messages, { signal }, { verb: "replay", statement, params });
      if (result.changed.length > 0) parts.options.logger.info("replay", { replayed: result.changed.length });
      return result;
    },
  };
}
