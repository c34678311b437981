import { usualRetentionMs } from "../queue/retry-policy.js";
import type { AppDefinition } from "./definition.js";

type Kept = Pick<AppDefinition, "retentions" | "retentionMs" | "webhooks">;

/**
 * The shortest time for which a done message of a source is kept. Its topic is the source's name, or begins with it and a dot; any, with
 * `sharedTopics`.
 */
export function shortestRetentionMs(
  { retentions = [], retentionMs = usualRetentionMs, webhooks }: Kept,
  source: string,
): number {
  const isOfSource = (topic: string): boolean => {
    if (webhooks?.sharedTopics || topic === source || topic.startsWith(`${source}.`)) return true;
    return topic.endsWith("*") && `${source}.`.startsWith(topic.slice(0, -1));
  };
  let shortestMs = Number.POSITIVE_INFINITY;
  for (const { queue = "inbox", topic = "*", type = "*", source: only = source, ...ages } of retentions) {
    if (queue !== "inbox" || only !== source || !isOfSource(topic) || ages.retentionMs === undefined)
      continue;
    shortestMs = Math.min(shortestMs, ages.retentionMs);
    if (topic === "*" && type === "*") return shortestMs; // it fits all that the ones before it do not
  }
  return Math.min(shortestMs, retentionMs);
}
