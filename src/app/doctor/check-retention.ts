import { type AnyMessage, type AnyQueue, deadState, type QueueKind } from "../../queue/any-queue.js";
import type { Finding } from "./finding.js";

export interface Retentions {
  readonly retentionMs: number;
  /** Undefined: dead messages are kept for ever. */
  readonly deadRetentionMs?: number | undefined;
}

const dayMs = 86_400_000;

/** Dead messages that nobody has looked after for so long are worth a note: they may hold personal data. */
const forgottenMs = 90 * dayMs;

/** Messages that are a day past their retention show that no clean-up runs. */
export async function checkRetention(
  name: QueueKind,
  queue: Pick<AnyQueue, "list">,
  { retentionMs, deadRetentionMs }: Retentions,
  now: () => number = Date.now,
): Promise<readonly Finding[]> {
  const ended = async (state: string, ageMs: number, endedAt: (message: AnyMessage) => Date | null) => {
    const latest = now() - ageMs;
    const { messages } = await queue.list({ state, olderThanMs: ageMs, limit: 100 });
    return messages.some((message) => {
      const at = endedAt(message);
      return at !== null && at.getTime() < latest && lastSeenAt(message, at) < latest;
    });
  };
  const findings: Finding[] = [];
  if (await ended("Done", retentionMs + dayMs, ({ processedAt }) => processedAt))
    findings.push(overdue(name, "done", retentionMs));
  // One with a partition key may be kept because it blocks its key.
  const diedAt = ({ partitionKey, diedAt }: AnyMessage) => (partitionKey === null ? diedAt : null);
  const dead = deadState[name];
  if (deadRetentionMs !== undefined) {
    if (await ended(dead, deadRetentionMs + dayMs, diedAt))
      findings.push(overdue(name, "dead", deadRetentionMs));
  } else if (await ended(dead, forgottenMs, diedAt)) findings.push(forgotten(name));
  return findings;
}

const overdue = (name: QueueKind, phase: "done" | "dead", retentionMs: number): Finding => ({
  check: "retention",
  level: "problem",
  message: `The ${name} has ${phase} messages that are more than a day past the retention of ${Math.round(retentionMs / dayMs)} days. The clean-up does not run, or not for long enough.`,
  run: "oncebox cleanup",
});

const forgotten = (name: QueueKind): Finding => ({
  check: "retention",
  level: "note",
  message: `The ${name} has messages that died more than ${forgottenMs / dayMs} days ago, and no retention of dead messages is set here: they are kept for ever. See deadRetentionMs in docs/operations.md.`,
  run: `oncebox dead groups --queue ${name}`,
});

/** A message that arrived again within the retention is kept. */
const lastSeenAt = (message: AnyMessage, otherwise: Date): number =>
  ("lastSeenAt" in message ? message.lastSeenAt : otherwise).getTime();
