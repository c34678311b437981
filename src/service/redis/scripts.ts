import { createHash } from "node:crypto";

/** A Lua script on one key, with the hash by which the server knows it. */
export interface RedisScript {
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

/** In order: ARGV[2] and on are the arguments that each script names. */
export const scripts = {
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
