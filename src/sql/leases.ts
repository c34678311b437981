import { sleep } from "../base/async.js";
import { InvalidArgumentError } from "../errors.js";
import {
  callInTransaction,
  checkCall,
  optionalLimit,
  plainCall,
  refuseUnknown,
  requireBatchSize,
  requireDuration,
  requireList,
} from "../queue/arguments.js";
import { type OwnerToken, ownerToken } from "../queue/leases.js";
import { mostAttempts } from "../queue/retry-policy.js";
import type {
  Abandonment,
  AbandonOptions,
  Acknowledgement,
  AckOptions,
  AnyKey,
  AnyMessage,
  CallOptions,
  ClaimOptions,
  ReplayOptions,
  Settlement,
} from "../queue/work-store.js";
import { announceDead, reasonOf } from "./dead-letters.js";
import type { Rows } from "./dialect.js";
import type { SqlExecutor } from "./driver.js";
import { storedError } from "./message-content.js";
import { enqueueWith, settle } from "./settle.js";
import type { QueueParts } from "./store.js";
import { attemptLimit, defaults } from "./store-options.js";

/** A claim that finds only messages that wait for a limit waits once for the next token: this long at most, so that a run goes on. */
const longestTokenWaitMs = 1_000;
/** At a limit of hundreds per second, each token for itself would be a round trip. */
const shortestTokenWaitMs = 50;

export async function claim(parts: QueueParts, call: ClaimOptions): Promise<readonly AnyMessage[]> {
  checkCall(call ?? {}, ["owner", "leaseMs", "batchSize", "signal"], "claim");
  const owner = ownerToken(call?.owner);
  const leaseMs = call.leaseMs ?? defaults.leaseMs;
  const limit = call.batchSize ?? defaults.batchSize;
  requireDuration(leaseMs, "leaseMs");
  requireBatchSize(limit);
  const { runner, statements, options } = parts;
  let hasWaited = false;
  for (;;) {
    const rows = await runner.execute(statements.claim, { owner, lease_ms: leaseMs, limit }, call);
    const claimed = claimedMessages(parts, rows, owner);
    options.logger.debug("claim", { claimed: claimed.length });
    if (claimed.length > 0 || rows.length === 0) return claimed;
    const { seq, verdict, wait_ms } = rows[0]!;
    if (seq !== null) continue; // the claim made every row dead, and there may be claimable messages after them
    if (verdict === "paused" || hasWaited || Number(wait_ms) > longestTokenWaitMs) return [];
    hasWaited = true;
    await sleep(Math.max(Number(wait_ms), shortestTokenWaitMs), call.signal);
  }
}

/** The messages that were claimed. The claim made the other rows dead; `onDead` is called for them. */
function claimedMessages(parts: QueueParts, rows: Rows, owner: OwnerToken): readonly AnyMessage[] {
  const { db, shape } = parts;
  const claimed: AnyMessage[] = [];
  for (const row of rows) {
    if (row.seq === null) continue;
    const verdict = row.verdict ?? "claimed";
    if (verdict === "claimed") claimed.push(shape.toMessage(row, db.dialect, owner));
    else announceDead(parts, [shape.keyOf(row)], reasonOf(verdict));
  }
  return claimed.sort((a, b) => a.seq - b.seq);
}

type Keys = readonly AnyKey[];

export async function ack(
  parts: QueueParts,
  owner: OwnerToken,
  messages: readonly (AnyKey | Acknowledgement<AnyKey>)[],
  call: AckOptions<SqlExecutor> = {},
): Promise<Settlement<AnyKey>> {
  checkCall(call, callInTransaction, "ack");
  const params = { owner: ownerToken(owner), processed_by: parts.options.processedBy ?? owner };
  const what = { verb: "ack", statement: parts.statements.ack, params };
  requireList(messages, "messages");
  if (!messages.some(isItem)) return settle(parts, messages as Keys, call, what);
  const items = messages.map((entry) => (isItem(entry) ? entry : { message: entry }));
  const keys = items.map(({ message }) => message);
  return settle(parts, keys, call, { ...what, sendWith: enqueueWith(parts, items, params, call) });
}

/** An item has a message and more; anything else is the message. */
const isItem = <Item extends { readonly message: AnyKey }>(entry: AnyKey | Item): entry is Item =>
  typeof entry === "object" && entry !== null && "message" in entry;

export async function abandon(
  parts: QueueParts,
  owner: OwnerToken,
  messages: readonly (AnyKey | Abandonment<AnyKey>)[],
  call: AbandonOptions = {},
): Promise<Settlement<AnyKey>> {
  checkCall(call, ["maxAttempts", "delayMs", "error", "signal"], "abandon");
  const token = ownerToken(owner);
  requireList(messages, "messages");
  optionalLimit(call.maxAttempts, "maxAttempts", 1, mostAttempts);
  const { shape, statements } = parts;
  const items = new Map<string, Abandonment<AnyKey>>();
  for (const entry of messages) {
    const own: Abandonment<AnyKey> = isItem(entry) ? entry : { message: entry };
    const delayMs = own.delayMs ?? call.delayMs;
    if (delayMs !== undefined) requireDuration(delayMs, "delayMs");
    items.set(shape.keyText(shape.key(own.message)), { ...own, delayMs, error: own.error ?? call.error });
  }
  const keys = [...items.values()].map((item) => item.message);
  const result = await settle(parts, keys, call, {
    verb: "abandon",
    statement: statements.abandon,
    params: { owner: token, ...(call.maxAttempts && { max_attempts: attemptLimit(call.maxAttempts) }) },
    itemOf(key, seq) {
      const { delayMs, error, costsAttempt = true } = items.get(shape.keyText(key))!;
      const row = { seq, delay_ms: delayMs ?? null, ...storedError(error) };
      return costsAttempt ? row : { ...row, attempts: 0 };
    },
  });
  for (const key of result.dead)
    announceDead(parts, [key], items.get(shape.keyText(key))!.error ?? "The last attempt was abandoned.");
  return result;
}

export async function fail(
  parts: QueueParts,
  owner: OwnerToken,
  messages: Keys,
  error: string,
  call: CallOptions = {},
): Promise<Settlement<AnyKey>> {
  checkCall(call, plainCall, "fail");
  const token = ownerToken(owner);
  const isAbsent = parts.kind === "outbox" && (error === undefined || error === null);
  if (!isAbsent && typeof error !== "string")
    throw new InvalidArgumentError("fail: error must be a string that says why.");
  const params = { owner: token, ...storedError(error) };
  const statement = parts.statements.fail;
  const result = await settle(parts, messages, call, { verb: "fail", statement, params });
  announceDead(parts, result.changed, error || "Failed without an error.");
  return { ...result, dead: result.changed };
}

export async function release(
  parts: QueueParts,
  owner: OwnerToken,
  messages: Keys,
  call: CallOptions = {},
): Promise<Settlement<AnyKey>> {
  checkCall(call, plainCall, "release");
  const params = { owner: ownerToken(owner) };
  return settle(parts, messages, call, { verb: "release", statement: parts.statements.release, params });
}

export async function renew(
  parts: QueueParts,
  owner: OwnerToken,
  messages: Keys,
  leaseMs: number,
  call: CallOptions = {},
): Promise<Settlement<AnyKey>> {
  checkCall(call, plainCall, "renew");
  requireDuration(leaseMs, "leaseMs");
  const params = { owner: ownerToken(owner), lease_ms: leaseMs };
  return settle(parts, messages, call, { verb: "renew", statement: parts.statements.renew, params });
}

/** Dead messages by their keys. The operators' replay, which is recorded, is in src/operators. */
export async function replay(
  parts: QueueParts,
  messages: Keys,
  call: ReplayOptions = {},
): Promise<Settlement<AnyKey>> {
  refuseUnknown(call, ["ttlMs", "signal"], "replay");
  const { ttlMs, signal } = call;
  if (ttlMs !== undefined) requireDuration(ttlMs, "ttlMs");
  const params = { ttl_ms: ttlMs ?? null };
  const statement = parts.statements.replay;
  const result = await settle(parts, messages, { signal }, { verb: "replay", statement, params });
  if (result.changed.length > 0) parts.options.logger.info("replay", { replayed: result.changed.length });
  return result;
}
