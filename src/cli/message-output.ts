import type { AnyMessage, QueueKind } from "../queue/any-queue.js";
import type { FailedAttempt } from "../queue/dead-letters.js";
import { formatKey } from "./message-key.js";
import { printable, tableLines } from "./table.js";

type ShownMessage = Readonly<Record<string, unknown>> & Pick<AnyMessage, "headers">;

/** A message for the output. It has the payload only on request: a payload may be personal data. */
export function shownMessage(queue: QueueKind, message: AnyMessage, withPayload: boolean): ShownMessage {
  const { payload, ...rest } = message;
  const hash = "hash" in rest && rest.hash !== null ? { hash: Buffer.from(rest.hash).toString("hex") } : {};
  return { queue, key: formatKey(message), ...rest, ...hash, ...(withPayload ? { payload } : {}) };
}

/** One line per field that has a value, then the headers, the failed attempts, and the payload last. */
export function messageLines(
  shown: ShownMessage,
  attempts: readonly FailedAttempt[],
  width: number | undefined,
): readonly string[] {
  const { headers, payload, ...fields } = shown;
  const lines = Object.entries(fields)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => line(name, value));
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
