import type { QueueKind } from "./message-filter.js";
import { formatKey } from "./message-key.js";
import type { AnyMessage } from "./queue-stores.js";
import { printable } from "./table.js";

/** A message for the output. It has the payload only on request: a payload may be personal data. */
export function shownMessage(
  queue: QueueKind,
  message: AnyMessage,
  withPayload: boolean,
): Record<string, unknown> {
  const { payload, ...rest } = message;
  const hash = "hash" in rest && rest.hash !== null ? { hash: Buffer.from(rest.hash).toString("hex") } : {};
  return { queue, key: formatKey(message), ...rest, ...hash, ...(withPayload ? { payload } : {}) };
}

/** One line per field that has a value, the headers line by line, and the payload last. */
export function messageLines(queue: QueueKind, message: AnyMessage, withPayload: boolean): readonly string[] {
  const { headers, payload, ...fields } = shownMessage(queue, message, withPayload);
  const lines = Object.entries(fields)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => line(name, value));
  for (const [name, value] of Object.entries(message.headers ?? {}))
    lines.push(line(`header ${name}`, value));
  if (withPayload) lines.push("", ...String(payload).split("\n").map(printable));
  return lines;
}

const line = (name: string, value: unknown): string =>
  `${printable(name).padEnd(15)} ${printable(value instanceof Date ? value.toISOString() : String(value))}`;
