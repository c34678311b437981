/** What a wake-up sends, as an invocation's event or as a message in a queue. */
export const wakeUpMessage = { oncebox: "wake-up" } as const;

export type DispatchTrigger = "schedule" | "wake-up" | "queue";

/**
 * Who started the dispatch function. All messages of a queue's batch want the same, one run; and what is neither a
 * batch nor a wake-up is a schedule, whose event anybody may shape as they like.
 */
export function triggerOf(event: unknown): DispatchTrigger {
  const { oncebox, Records: records } = (event ?? {}) as { oncebox?: unknown; Records?: unknown };
  if (oncebox === wakeUpMessage.oncebox) return "wake-up";
  const isBatch = Array.isArray(records) && records.some((record) => record?.eventSource === "aws:sqs");
  return isBatch ? "queue" : "schedule";
}
