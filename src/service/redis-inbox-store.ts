import { abortable } from "../base/abortable.js";
import { defined } from "../base/defined.js";
import { type LoggerOption, loggerOf } from "../base/logger.js";
import { memoisePromise } from "../base/memoise-promise.js";
import { requirePackage } from "../base/require-package.js";
import { refuseUnknown, requireDuration, requireName } from "../queue/arguments.js";
import { checkAll, requireOneOf } from "./check-all.js";
import { checkedInboxStore, type KeyOperations } from "./checked-inbox-store.js";
import type { FinishResult, KeyReport, LeasingInboxStore, ReleaseResult } from "./inbox-store.js";
import { defaultRetentionMs, retention } from "./key.js";
import { type OpenRedisClient, openRedisClient, type RedisClient } from "./redis/client.js";
import { runScript } from "./redis/run-script.js";
import { type RedisScript, scripts } from "./redis/scripts.js";

export interface RedisInboxStoreOptions {
  /** `redis://…` or `rediss://…`. The store opens a client of its own, and closes it. */
  readonly url?: string | undefined;
  /** A client of ioredis, `Redis` or `Cluster`. The store does not close it. */
  readonly client?: RedisClient | undefined;
  /** The first part of the names of all keys in Redis: `oncebox:inbox:` by default. */
  readonly prefix?: string | undefined;
  /** How long processed keys are kept, and keys that nobody holds: 7 to 30 days, 30 by default. */
  readonly retentionMs?: number | undefined;
  /** The longest time of one call: 10 s by default. */
  readonly timeoutMs?: number | undefined;
  readonly logger?: LoggerOption | undefined;
  /** For tests: replaces the server's time. Redis still removes keys by its own time. */
  readonly clock?: (() => Date) | undefined;
}

const defaults = { prefix: "oncebox:inbox:", retentionMs: defaultRetentionMs, timeoutMs: 10_000 } as const;
const known = ["url", "client", "prefix", "retentionMs", "timeoutMs", "logger", "clock"];

/**
 * An inbox store on Redis or Valkey. Needs Redis 5 or later, and the package ioredis.
 *
 * @example
 * const store = createRedisInboxStore({ url: "redis://localhost:6379" });
 */
export function createRedisInboxStore(options: RedisInboxStoreOptions): LeasingInboxStore {
  const { prefix, retentionMs, timeoutMs, clock, client } = checked(options);
  if (client === undefined) requirePackage("ioredis", "The Redis inbox store");
  let opened: OpenRedisClient | undefined;
  const open = memoisePromise(async (): Promise<RedisClient> => {
    if (client !== undefined) return client;
    opened = await openRedisClient(options.url!, loggerOf(options.logger));
    return opened;
  });
  const kept = String(retentionMs);
  const now = (): string => (clock === undefined ? "" : String(clock().getTime()));

  const run = async (script: RedisScript, key: string, signal: AbortSignal, values: readonly string[] = []) =>
    abortable(runScript(await open(), script, redisKey(prefix, key), [now(), ...values]), signal);
  const rowOf = async (...call: Parameters<typeof run>) => (await run(...call)) as (string | null)[];

  const operations: KeyOperations = {
    isProcessed: async (key, signal) => Number(await run(scripts.isProcessed, key, signal)) === 1,
    async markProcessed(key, signal) {
      await run(scripts.markProcessed, key, signal, [kept]);
    },
    async tryBegin(key, { leaseId, leaseMs, owner }, signal) {
      const values = [leaseId, String(leaseMs), owner ?? "", kept];
      const [status, until] = await rowOf(scripts.tryBegin, key, signal, values);
      if (status === "Acquired") return { status, leaseId, expiresAt: dateOf(until) };
      return status === "Processed" ? { status } : { status: "Busy", expiresAt: dateOf(until) };
    },
    async renew(key, leaseId, leaseMs, signal) {
      const [status, until] = await rowOf(scripts.renew, key, signal, [leaseId, String(leaseMs), kept]);
      return status === "Renewed" ? { status, expiresAt: dateOf(until) } : { status: "LeaseLost" };
    },
    async finish(key, leaseId, signal) {
      const [status] = await rowOf(scripts.finish, key, signal, [leaseId, kept]);
      return { status } as FinishResult;
    },
    async release(key, leaseId, signal) {
      const [status] = await rowOf(scripts.release, key, signal, [leaseId, kept]);
      return { status } as ReleaseResult;
    },
    inspect: async (key, signal) => reportOf(await rowOf(scripts.inspect, key, signal)),
    async close() {
      await opened?.close();
    },
  };
  return checkedInboxStore(operations, timeoutMs);
}

/** The key in braces is the hash tag of Redis Cluster: keys spread over all nodes, whatever braces they have themselves. */
const redisKey = (prefix: string, key: string): string => `${prefix}{${key}}`;

const dateOf = (ms: string | null | undefined): Date => new Date(Number(ms));

function reportOf(row: readonly (string | null)[]): KeyReport {
  const [first, last, attempts, owner, processed, until] = row;
  if (first === undefined) return { status: "Unknown" };
  const isLeased = typeof until === "string";
  return {
    status: typeof processed === "string" ? "Processed" : isLeased ? "Leased" : "Free",
    attempts: Number(attempts ?? 0),
    firstSeenAt: dateOf(first),
    lastSeenAt: dateOf(last),
    leaseUntil: isLeased ? dateOf(until) : null,
    owner: owner ?? null,
  };
}

function checked(options: RedisInboxStoreOptions) {
  const what = "createRedisInboxStore";
  refuseUnknown(options, known, what);
  const filled = { ...defaults, ...defined(options) };
  checkAll(what, [
    () => requireOneOf(options, ["url", "client"]),
    () => requireName(filled.prefix, "prefix"),
    () => retention(filled.retentionMs),
    () => requireDuration(filled.timeoutMs, "timeoutMs"),
  ]);
  return filled;
}
