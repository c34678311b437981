import { loadPackage, rethrow } from "../../base/load-package.js";
import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import { InvalidArgumentError } from "../../errors.js";

/** The part of a client that the store uses. `Redis` and `Cluster` of ioredis have it, and those of its fork iovalkey. */
export interface RedisClient {
  evalsha(sha: string, keys: number, ...keysAndArguments: string[]): Promise<unknown>;
  eval(text: string, keys: number, ...keysAndArguments: string[]): Promise<unknown>;
}

export interface OpenRedisClient extends RedisClient {
  close(): Promise<void>;
}

/** Connects at the first call. No error quotes the URL, which may contain a password. */
export async function openRedisClient(url: string, logger: Logger): Promise<OpenRedisClient> {
  if (!/^rediss?:\/\//i.test(url) || !URL.canParse(url))
    throw new InvalidArgumentError(
      "The Redis URL must be redis://user:password@host:port/database, or rediss:// for TLS; special characters percent-encoded.",
    );
  const { Redis } = await loadIoredis();
  const client = new Redis(url, { lazyConnect: true });
  // without a listener ioredis writes each failed connect to the console
  client.on("error", (error: unknown) =>
    logger.warn("redis connection failed", { error: safeReason(error) }),
  );
  return {
    evalsha: (sha, keys, ...rest) => client.evalsha(sha, keys, ...rest),
    eval: (text, keys, ...rest) => client.eval(text, keys, ...rest),
    async close() {
      client.disconnect(); // calls under way are rejected; QUIT would wait for a server that is away
    },
  };
}

const loadIoredis = (): Promise<Pick<typeof import("ioredis"), "Redis">> =>
  loadPackage("ioredis", () => import("ioredis").catch(rethrow), "The Redis inbox store");
