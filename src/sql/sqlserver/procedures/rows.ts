import type { QueueNames } from "../../names.js";
import { binary } from "../expressions.js";
import { inLines } from "../in-lines.js";

const stateColumns = [
  ...[
    "seq",
    "attempt",
    "expires_at",
    "visible_at",
    "locked_until",
    "owner",
    "crashes",
    "status",
    "last_error",
  ],
  ...["last_attempt_at", "processed_at", "processed_by", "died_at", "error_group", "ended_as"],
];

const messageColumns = (n: QueueNames) => [
  ...["topic", "payload", "partition_key", "headers", "correlation_id", "due_at"],
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

/**
 * Functions of a row's number, for the procedures that both queues have: only these functions know in which columns the
 * queues differ. Each is a query and no code: the server puts it into the statement that calls it.
 */
export const rowFunctions = (n: QueueNames): readonly string[] => [
  `create or alter function ${n.object("_Row")} (@seq bigint)
returns table as return
select ${inLines([...aliased("s", stateColumns), ...aliased("m", messageColumns(n))])}
from ${n.state} s with (forceseek)
inner join ${n.message} m with (forceseek) on m.seq = s.seq
where s.seq = @seq`,
  `create or alter function ${n.object("_KeyOf")} (@seq bigint)
returns table as return
select ${n.kind === "inbox" ? "m.source as source, m.message_id as message_id" : `cast(null as nvarchar(255)) ${binary} as source, m.id as id`}, m.topic as topic
from ${n.message} m with (forceseek)
where m.seq = @seq`,
];

/** The row of the message with this number, as `r`: a join in a FROM clause. */
export const withRow = (n: QueueNames, seq: string) => `cross apply ${n.object("_Row")}(${seq}) r`;

/** The key of the message with this number, its topic, and its source, which is null in an outbox. */
export const keyOf = (n: QueueNames, seq: string) => `${n.object("_KeyOf")}(${seq})`;
