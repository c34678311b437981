import { createHash } from "node:crypto";
import { abortable, memoisePromise } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import { loadPackage, requirePackage, rethrow } from "../base/require-package.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration, requireName } from "../queue/arguments.js";
import {
  checkAll,
  checkedInboxStore,
  type FinishResult,
  type KeyCalls,
  type KeyReport,
  type LeasingInboxStore,
  longestRetentionMs,
  type ReleaseResult,
  requireOneOf,
  retention,
} from "./inbox-store.js";

/** Options of an inbox store on Redis. */
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

/** The part of a client that the store uses. `Redis` and `Cluster` of ioredis have it, and those of its fork iovalkey. */
export interface RedisClient {
  evalsha(sha: string, keys: number, ...keysAndArguments: string[]): Promise<unknown>;
  eval(text: string, keys: number, ...keysAndArguments: string[]): Promise<unknown>;
}

const defaults = { prefix: "oncebox:inbox:", retentionMs: longestRetentionMs, timeoutMs: 10_000 } as const;
const known = ["url", "client", "prefix", "retentionMs", "timeoutMs", "logger", "clock"];

/**
 * An inbox store on Redis or Valkey. Needs Redis 5 or later, and the package ioredis.
 *
 * @example
 * const store = createRedisInboxStore({ url: "redis://localhost:6379" });
 */
export function createRedisInboxStore(options: RedisInboxStoreOptions): LeasingInboxStore {
  const { prefix, retentionMs, timeoutMs, clock, client, url = "", logger } = checked(options);
  if (client === undefined) requirePackage("ioredis", user);
  let close = async (): Promise<void> => {};
  const open = memoisePromise(async (): Promise<RedisClient> => {
    if (client !== undefined) return client;
    const opened = await openRedis(url, logger);
    close = async () => opened.disconnect(); // calls under way are rejected; QUIT would wait for a server that is away
    return opened;
  });
  const kept = String(retentionMs);
  const now = (): string => (clock === undefined ? "" : String(clock().getTime()));

  const run = async (
    script: RedisScript,
    key: string,
    signal: AbortSignal | undefined,
    values: readonly string[] = [],
  ): Promise<unknown> =>
    abortable(runScript(await open(), script, redisKey(prefix, key), [now(), ...values]), signal);
  const rowOf = async (...call: Parameters<typeof run>) => (await run(...call)) as (string | null)[];

  const calls: KeyCalls = {
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
    close: () => close(),
  };
  return checkedInboxStore(calls, { timeoutMs });
}

const user = "The Redis inbox store";

/** Connects at the first call. No error quotes the URL, which may contain a password. */
async function openRedis(url: string, logger: LoggerOption | undefined) {
  if (!/^rediss?:\/\//i.test(url) || !URL.canParse(url))
    throw new InvalidArgumentError(
      "The Redis URL must be redis://user:password@host:port/database, or rediss:// for TLS; special characters percent-encoded.",
    );
  const { Redis } = await loadPackage("ioredis", () => import("ioredis").catch(rethrow), user);
  const client = new Redis(url, { lazyConnect: true });
  // without a listener ioredis writes each failed connect to the console
  client.on("error", (error: unknown) =>
    loggerOf(logger).warn("redis connection failed", { error: safeReason(error) }),
  );
  return client;
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
  const filled = { ...defaults, ...omitUndefined(options) };
  checkAll(what, [
    () => requireOneOf(options, ["url", "client"]),
    () => requireName(filled.prefix, "prefix"),
    () => retention(filled.retentionMs),
    () => requireDuration(filled.timeoutMs, "timeoutMs"),
  ]);
  return filled;
}

/**
 * Runs a script by its hash. A server that was restarted, or that has made room in its script cache, no longer knows it, and
 * gets the text: nothing was run then, so that is safe.
 */
async function runScript(
  client: RedisClient,
  { sha, text }: RedisScript,
  key: string,
  values: readonly string[],
): Promise<unknown> {
  try {
    return await client.evalsha(sha, 1, key, ...values);
  } catch (error) {
    if (!/^NOSCRIPT\b/.test(String((error as Error).message))) throw error;
    return client.eval(text, 1, key, ...values);
  }
}

/** A Lua script on one key, with the hash by which the server knows it. */
interface RedisScript {
  readonly text: string;
  readonly sha: string;
}

/*
 * A key of the store is one hash. Its fields: processed (when), by (the lease that finished it), lease, until, owner, attempts,
 * first, last. Times are milliseconds. Each script is one atomic step. ARGV[1] is the time of a test, or empty: then the
 * server's own time counts, and the clocks of callers do not matter. Times are written by %.0f: Lua would write 1.7e+12.
 */
const script = (body: string): RedisScript => {
  const text = `local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local function ms(time) return string.format('%.0f', time) end
local function holds(lease)
  local f = redis.call('HMGET', KEYS[1], 'lease', 'until')
  return f[1] == lease and tonumber(f[2]) > now
end
${body}`;
  return { text, sha: createHash("sha1").update(text).digest("hex") };
};

/** ARGV[2] and on are the arguments that each script names, in this order. */
const scripts = {
  isProcessed: script(`return redis.call('HEXISTS', KEYS[1], 'processed')`),

  /** retentionMs → nothing of interest. The first processing counts: a repeated mark does not extend the retention. */
  markProcessed: script(`if redis.call('HSETNX', KEYS[1], 'processed', ms(now)) == 1 then
  redis.call('HSETNX', KEYS[1], 'first', ms(now))
  redis.call('HDEL', KEYS[1], 'lease', 'until')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.call('HSET', KEYS[1], 'last', ms(now))
return 1`),

  /** leaseId, leaseMs, owner or empty, retentionMs → status, end of the lease. The same lease id gets the same lease. */
  tryBegin: script(`local f = redis.call('HMGET', KEYS[1], 'processed', 'lease', 'until')
redis.call('HSET', KEYS[1], 'last', ms(now))
if f[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
  return {'Processed'}
end
if f[2] and tonumber(f[3]) > now then
  return {f[2] == ARGV[2] and 'Acquired' or 'Busy', f[3]}
end
local ends = ms(now + tonumber(ARGV[3]))
redis.call('HSETNX', KEYS[1], 'first', ms(now))
redis.call('HINCRBY', KEYS[1], 'attempts', 1)
redis.call('HSET', KEYS[1], 'lease', ARGV[2], 'until', ends)
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[1], 'owner')
else
  redis.call('HSET', KEYS[1], 'owner', ARGV[4])
end
redis.call('PEXPIRE', KEYS[1], ms(tonumber(ARGV[3]) + tonumber(ARGV[5])))
return {'Acquired', ends}`),

  /** leaseId, leaseMs, retentionMs → status, end of the lease */
  renew: script(`if not holds(ARGV[2]) then return {'LeaseLost'} end
local ends = ms(now + tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'until', ends)
redis.call('PEXPIRE', KEYS[1], ms(tonumber(ARGV[3]) + tonumber(ARGV[4])))
return {'Renewed', ends}`),

  /** leaseId, retentionMs → status */
  finish: script(`if redis.call('HGET', KEYS[1], 'by') == ARGV[2] then return {'Processed'} end
if not holds(ARGV[2]) then return {'LeaseLost'} end
redis.call('HSET', KEYS[1], 'processed', ms(now), 'by', ARGV[2])
redis.call('HDEL', KEYS[1], 'lease', 'until')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'Processed'}`),

  /** leaseId, retentionMs → status */
  release: script(`if not holds(ARGV[2]) then return {'LeaseLost'} end
redis.call('HDEL', KEYS[1], 'lease', 'until')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'Released'}`),

  /** → first, last, attempts, owner, processed, until while leased; nothing for an unknown key */
  inspect:
    script(`local f = redis.call('HMGET', KEYS[1], 'first', 'last', 'attempts', 'owner', 'processed', 'until')
if not f[1] then return {} end
if f[6] and tonumber(f[6]) <= now then f[6] = false end
return f`),
} as const;
