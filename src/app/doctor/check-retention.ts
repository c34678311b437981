import type { QueueMessage } from "../../queue/message.js";
import type { ListFilter, Page } from "../../queue/work-store.js";
import type { Finding } from "./finding.js";

export interface ListedQueue {
  list(filter: Pick<ListFilter<"Done">, "state" | "olderThanMs" | "limit">): Promise<Page<QueueMessage>>;
}

const dayMs = 86_400_000;

/** Done messages that are a day past the retention show that no clean-up runs. */
export async function checkRetention(
  name: string,
  queue: ListedQueue,
  retentionMs: number,
  now: () => number = Date.now,
): Promise<readonly Finding[]> {
  const latest = now() - retentionMs - dayMs;
  const { messages } = await queue.list({ state: "Done", olderThanMs: retentionMs + dayMs, limit: 100 });
  const overdue = messages.filter(
    ({ processedAt }) => processedAt !== null && processedAt.getTime() < latest,
  );
  if (overdue.length === 0) return [];
  const days = Math.round(retentionMs / dayMs);
  return [
    {
      check: "retention",
      level: "problem",
      message: `The ${name} has Done messages that are more than a day past the retention of ${days} days. The clean-up does not run, or not for long enough.`,
      run: "oncebox cleanup",
    },
  ];
}
