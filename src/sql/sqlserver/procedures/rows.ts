import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { inLines } from "../in-lines.js";

const leaseColumns = [
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
const stateColumns = [...leaseColumns, ...outcomeColumns, "died_at", "error_group", "ended_as"];

const messageColumns = (n: QueueNames) => [
  ...["topic", "payload", "partition_key", "headers", "correlation_id", "due_at"],
  ...(n.kind === "inbox"
    ? ["source", "message_id", "hash", "first_seen_at", "last_seen_at", "deliveries"]
    : ["id", "message_id", "created_at", "natural_key"]),
];

export const columns = (alias: string, list: readonly string[]) =>
  inLines(list.map((column) => `${alias}.${column}`));

export const inserted = (list: readonly string[]) => inLines(list.map((column) => `inserted.${column}`));

/**
 * Functions of a row's number, for the procedures that both queues have: only these functions know in which columns the
 * queues differ. Each is a query and no code: the server puts it into the statement that calls it.
 *
 * Each reads one table. Of two, FORCE ORDER would have the server join them to each other before it joins the rows that
 * call the function: without a number to seek, so that FORCESEEK would make the statement fail (error 8622).
 */
export const rowFunctions = (n: QueueNames): readonly string[] => {
  const key =
    n.kind === "inbox" ? "m.source, m.message_id" : `cast(null as nvarchar(255)) ${binary} as source, m.id`;
  const ofRow = (
    suffix: string,
    selected: string,
  ) => `create or alter function ${n.object(suffix)} (@seq bigint)
returns table as return
select ${selected}
from ${n.message} m with (index(${n.bare("_PK")}), forceseek)
where m.seq = @seq`;
  return [ofRow("_MessageOf", columns("m", messageColumns(n))), ofRow("_KeyOf", `${key}, m.topic`)];
};

/** The columns of a message's row: of its state `s`, and of the message `m`, which `withMessage` joins. */
export const rowOf = (indent = "  ") =>
  `${inLines(
    stateColumns.map((one) => (one === "visible_at" ? "s.visible_at as next_attempt_at" : `s.${one}`)),
    indent,
  )}, m.*`;

/** The message with this number, as `m`: a join in a FROM clause. */
export const withMessage = (n: QueueNames, seq: string) => `cross apply ${n.object("_MessageOf")}(${seq}) m`;

/** The key of the message with this number, its topic, and its source, which is null in an outbox. */
export const keyOf = (n: QueueNames, seq: string) => `${n.object("_KeyOf")}(${seq})`;
