import type { QueueNames } from "../../names.js";
import { inLines } from "../in-lines.js";

export const leaseColumns = [
  "seq",
  "attempt",
  "expires_at",
  "visible_at",
  "locked_until",
  "owner",
  "crashes",
  "status",
];

const outcomeColumns = ["last_error", "last_attempt_at", "processed_at", "processed_by"];

const messageColumns = (n: QueueNames) => [
  "topic",
  "payload",
  "partition_key",
  "headers",
  "correlation_id",
  "due_at",
  ...(n.kind === "inbox"
    ? ["source", "message_id", "hash", "first_seen_at", "last_seen_at", "deliveries"]
    : ["id", "message_id", "created_at", "natural_key"]),
];

const aliased = (alias: string, list: readonly string[]) =>
  list.map((column) => `${alias}.${column} as ${column === "visible_at" ? "next_attempt_at" : column}`);

/** Every column with an alias: Babelfish returns the other names in lower case. */
export const columns = (alias: string, list: readonly string[]) =>
  inLines(list.map((column) => `${alias}.${column} as ${column}`));

export const inserted = (list: readonly string[]) => inLines(list.map((column) => `inserted.${column}`));

/** `more` columns of the state. */
export const row = (n: QueueNames, lease = "s", more: readonly string[] = [], indent = "  ") =>
  inLines(
    [
      ...aliased(lease, leaseColumns),
      ...aliased("s", [...outcomeColumns, ...more]),
      ...aliased("m", messageColumns(n)),
    ],
    indent,
  );
