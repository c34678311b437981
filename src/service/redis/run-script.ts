import type { RedisClient } from "./client.js";
import type { RedisScript } from "./scripts.js";

/**
 * Runs a script by its hash. A server that was restarted, or that has made room in its script cache, no longer knows it, and
 * gets the text: nothing was run then, so that is safe.
 */
export async function runScript(
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
