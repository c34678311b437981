import type { PhasedMessage } from "../admin/list-phased.js";
import { messageView } from "../admin/message-view.js";
import type { QueueKind } from "../queue/any-queue.js";
import type { FailedAttempt } from "../queue/dead-letters.js";
import { groupName } from "./message-filter.js";
import { printable, tableLines } from "./table.js";

/** A message for the output. It has payload and header values only on request: they may be personal data. */
export const shownMessage = (queue: QueueKind, phased: PhasedMessage, withPayload: boolean) => {
  const { message } = phased;
  const errorGroup = message.errorGroup === null ? null : groupName(message.errorGroup);
  return { queue, ...messageView(phased, withPayload), errorGroup };
};

/** One line per field that has a value, then the headers, the failed attempts, and the payload last. */
export function messageLines(
  shown: ReturnType<typeof shownMessage>,
  attempts: readonly FailedAttempt[],
  width: number | undefined,
): readonly string[] {
  const { headers, headerNames, payload, ...fields } = shown;
  const lines = Object.entries(fields)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => line(name, value));
  if (headers === undefined && headerNames.length > 0)
    lines.push(line("headers", `${headerNames.join(", ")} (values: --payload)`));
  for (const [name, value] of Object.entries(headers ?? {})) lines.push(line(`header ${name}`, value));
  if (attempts.length > 0)
    lines.push("", ...tableLines(["FAILED ATTEMPT", "AT", "WORKER", "ERROR"], attempts.map(row), width));
  if (payload !== undefined) lines.push("", ...String(payload).split("\n").map(printable));
  return lines;
}

const row = ({ attempt, endedAt, worker, error }: FailedAttempt): readonly string[] => [
  String(attempt),
  endedAt.toISOString(),
  worker ?? "",
  error ?? "",
];

const line = (name: string, value: unknown): string =>
  `${printable(name).padEnd(15)} ${printable(value instanceof Date ? value.toISOString() : String(value))}`;
