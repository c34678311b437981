/** The content of a wake-up, as the event of an invocation or as a message in a queue. */
export const wakeUpMessage = { oncebox: "wake-up" } as const;

export type DispatchTrigger = "schedule" | "wake-up" | "queue";

/**
 * What started the dispatch function. One run serves all messages of a queue's batch. An event that is neither
 * a batch nor a wake-up is a schedule's, because a schedule's event may have any content.
 */
export function triggerOf(event: unknown): DispatchTrigger {
  const { oncebox, Records: records } = (event ?? {}) as { oncebox?: unknown; Records?: unknown };
  if (oncebox === wakeUpMessage.oncebox) return "wake-up";
  const isBatch = Array.isArray(records) && records.some((record) => record?.eventSource === "aws:sqs");
  return isBatch ? "queue" : "schedule";
}
