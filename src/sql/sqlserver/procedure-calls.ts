import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";

/**
 * A statement that calls a procedure. The procedure's parameters are those of the statement of the same names, unless `given` has
 * a value. `parameters`: those of the call, where it leaves some out.
 */
export function callProcedure(
  n: QueueNames,
  name: string,
  procedure: ProcedureName,
  given: Partial<Record<ParameterName, string>> = {},
  parameters = parametersOf(n, procedure),
): SqlStatement {
  const list = parameters.map((one) => `@${one} = ${given[one] ?? `@${one}`}`).join(", ");
  return statement(name, `exec ${n.object(`_${procedure}`)} ${list}`);
}

/** A parameter has the same type in every procedure, except a message's id: text in the inbox, a GUID in the outbox. */
const parametersByType = {
  bit: ["leased", "revive", "blocks", "ended", "paused"],
  // own: the open transaction is a batch of ours, which is repeated as a whole after a fault
  "bit = 0": ["own"],
  tinyint: ["status", "status_2", "status_3"],
  int: ["limit", "max_attempts"],
  bigint: ["after_seq", "before_seq", "matched", "done", "last_seq"],
  float: [
    ...([
      "lease_ms",
      "base_ms",
      "factor",
      "max_ms",
      "jitter_ms",
      "retention_ms",
      "shortest_ms",
      "ttl_ms",
      "bucket_ms",
    ] as const),
    ...(["older_than_ms", "newer_than_ms", "per_second"] as const),
  ],
  "datetime2(3)": ["since", "due_at", "expires_at", "at"],
  uniqueidentifier: ["owner", "lease_id", "id"],
  // change: of a key, renew, finish or release
  "varchar(10)": ["change", "resolution"],
  "varchar(16)": ["error_group"],
  "nvarchar(10)": ["scope"],
  "nvarchar(20)": ["action"],
  // holder: the name of a caller that leases a key
  "nvarchar(100)": ["processed_by", "holder"],
  "nvarchar(255)": [
    ...([
      "source",
      "message_id",
      "key",
      "topic",
      "type",
      "correlation_id",
      "partition_key",
      "natural_key",
    ] as const),
    ...(["who", "name"] as const),
  ],
  // handled: what Ack has acknowledged in this transaction
  "nvarchar(max)": ["items", "error", "payload", "headers", "filter", "handled", "rules"],
  // acked: what Ack returns instead of rows, when it is not null
  "nvarchar(max) = null output": ["acked"],
  "varchar(max)": ["hash"],
} as const;

export type ParameterName = (typeof parametersByType)[keyof typeof parametersByType][number];

export function parameterType({ kind }: QueueNames, name: ParameterName): string {
  if (kind === "outbox" && name === "message_id") return "uniqueidentifier";
  const isOf = ([, names]: [string, readonly ParameterName[]]) => names.includes(name);
  return Object.entries<readonly ParameterName[]>(parametersByType).find(isOf)![0];
}

const backoff = ["base_ms", "factor", "max_ms", "jitter_ms"] as const;
export const filter = ["topic", "source", "error", "error_group", "older_than_ms", "newer_than_ms"] as const;
const content = ["topic", "type", "payload", "correlation_id", "headers", "due_at", "expires_at"] as const;
const messageKey = { inbox: ["source", "message_id"], outbox: ["id"] } as const;

const signatures = {
  Claim: ["owner", "lease_ms", "limit", "max_attempts", ...backoff, "blocks"],
  Ack: ["owner", "items", "processed_by", "acked"],
  Abandon: ["owner", "items", "max_attempts", ...backoff, "blocks"],
  Fail: ["owner", "items", "error", "error_group", "blocks"],
  Release: ["owner", "items"],
  Renew: ["owner", "items", "lease_ms", ...backoff],
  Reap: ["limit", "max_attempts", "blocks"],
  // of done messages or of dead ones, as @status says
  Purge: ["limit", "rules", "shortest_ms", "after_seq", "status"],
  PurgeOperations: ["retention_ms", "limit"],
  Resolve: ["items"],
  Get: messageKey,
  Attempts: messageKey,
  List: ["status", "status_2", "status_3", "leased", "resolution", ...filter, "after_seq", "limit"],
  Stats: [],
  OldestDue: [],
  Due: [],
  Replay: ["items", "ttl_ms"],
  RecordUnhandled: ["items"],
  Unhandled: ["limit"],
  ReceiveMessages: [
    ...(["revive", "blocks", "items", "source", "message_id"] as const),
    ...content,
    ...(["hash", "partition_key", "error", "error_group"] as const),
  ],
  // what other languages call, as Enqueue
  Receive: ["source", "message_id", ...content, "hash", "partition_key"],
  Mark: ["source", "message_id", "status", "error", "error_group", "blocks"],
  AlreadyProcessed: ["source", "message_id", "hash"],
  TryBegin: ["source", "key", "lease_id", "lease_ms", "holder"],
  ChangeKey: ["change", "source", "key", "lease_id", "lease_ms"],
  MarkKey: ["source", "key"],
  InspectKey: ["source", "key"],
  PurgeKeys: ["source", "retention_ms", "limit"],
  EnqueueMessages: [
    ...(["items", "id", "message_id"] as const),
    ...content,
    ...(["partition_key", "natural_key", "handled", "own"] as const),
  ],
  Enqueue: ["id", "message_id", ...content, "partition_key", "natural_key"],
  LockKeys: ["items"],
  ExpireDead: ["owner", "lease_ms", "limit"],
  ListDone: ["after_seq", "limit"],
  Resend: ["items", "ttl_ms"],
  MakeDue: ["error", "limit"],
  Discard: ["items"],
  Archive: ["items", "who", "resolution"],
  AddOperation: ["id", "who", "action", "filter"],
  MoveOperation: ["id", "matched", "done", "last_seq", "ended", "who"],
  PutControl: ["scope", "name", "paused", "per_second", "who"],
  EndControl: ["scope", "name", "paused", "who"],
  Controls: ["scope", "name"],
  ApplyPartitionChanges: [],
} as const satisfies Record<string, readonly ParameterName[] | typeof messageKey>;

export type ProcedureName = keyof typeof signatures;

/** The parameters of a procedure. Its definition and the statements that call it are both made of this. */
export function parametersOf(n: QueueNames, procedure: ProcedureName): readonly ParameterName[] {
  const signature = signatures[procedure];
  return "inbox" in signature ? signature[n.kind] : signature;
}

/** ReceiveMessages and EnqueueMessages take one message without a partition key as parameters, or any messages as JSON. */
export const received = {
  one: ["revive", "source", "message_id", ...content, "hash"],
  many: ["revive", "blocks", "items"],
} as const;
export const acknowledged = ["owner", "items", "processed_by"] as const;
export const enqueued = {
  one: ["id", "message_id", ...content],
  many: ["items"],
} as const;
