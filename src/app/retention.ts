import { agesOf } from "../queue/retention.js";
import { usualRetentionMs } from "../queue/retry-policy.js";
import type { AppDefinition, AppRetention } from "./definition.js";

/** The shortest time for which a done message of a source is kept. Its topic is the source's name, or begins with it and a dot. */
export function shortestRetentionMs(
  { retentions = [], retentionMs = usualRetentionMs }: Pick<AppDefinition, "retentions" | "retentionMs">,
  source: string,
): number {
  const mayFit = ({ queue = "inbox", topic, source: only = source }: AppRetention): boolean => {
    if (queue !== "inbox" || only !== source) return false;
    if (topic === undefined || topic === source || topic.startsWith(`${source}.`)) return true;
    return topic.endsWith("*") && `${source}.`.startsWith(topic.slice(0, -1));
  };
  return Math.min(...agesOf(retentions.filter(mayFit), "retentionMs", retentionMs));
}
