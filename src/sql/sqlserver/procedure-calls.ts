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
  const values = { hash: "@bytes", ...given };
  const list = parameters.map((one) => `@${one} = ${values[one] ?? `@${one}`}`).join(", ");
  const declared = parameters.includes("hash") ? convertHash : "";
  return statement(name, `${declared}exec ${n.object(`_${procedure}`)} ${list}`);
}

/** A missing hash comes as a null of type nvarchar, which must be converted to varbinary explicitly. */
const convertHash = "declare @bytes varbinary(max) = convert(varbinary(max), @hash);\n";

const parameterTypes = {
  now: "datetime2(3) = null",
  // the time that a test passes: the procedure reads the clock itself, when it holds the lock
  given_now: "datetime2(3) = null",
  owner: "uniqueidentifier",
  lease_ms: "float",
  // of a key: renew, finish, release
  change: "varchar(10)",
  limit: "int",
  max_attempts: "int",
  base_ms: "float",
  factor: "float",
  max_ms: "float",
  jitter_ms: "float",
  items: "nvarchar(max)",
  processed_by: "nvarchar(100)",
  error: "nvarchar(max)",
  error_group: "varchar(16)",
  retention_ms: "float",
  ttl_ms: "float",
  after_seq: "bigint",
  before_seq: "bigint",
  since: "datetime2(3)",
  bucket_ms: "float",
  source: "nvarchar(255)",
  message_id: "nvarchar(255)",
  key: "nvarchar(255)",
  lease_id: "uniqueidentifier",
  // the name of a caller that leases a key
  holder: "nvarchar(100)",
  id: "uniqueidentifier",
  status: "tinyint",
  status_2: "tinyint",
  status_3: "tinyint",
  resolution: "varchar(10)",
  leased: "bit",
  topic: "nvarchar(255)",
  older_than_ms: "float",
  newer_than_ms: "float",
  revive: "bit",
  blocks: "bit",
  payload: "nvarchar(max)",
  hash: "varbinary(max)",
  correlation_id: "nvarchar(255)",
  headers: "nvarchar(max)",
  partition_key: "nvarchar(255)",
  natural_key: "nvarchar(255)",
  due_at: "datetime2(3)",
  expires_at: "datetime2(3)",
  at: "datetime2(3)",
  who: "nvarchar(255)",
  action: "nvarchar(20)",
  filter: "nvarchar(max)",
  matched: "bigint",
  done: "bigint",
  last_seq: "bigint",
  ended: "bit",
  scope: "nvarchar(10)",
  name: "nvarchar(255)",
  paused: "bit",
  per_second: "float",
} as const;

export type ParameterName = keyof typeof parameterTypes;

/** A parameter has the same type in every procedure, except a message's id: text in the inbox, a GUID in the outbox. */
export const parameterType = ({ kind }: QueueNames, name: ParameterName): string =>
  kind === "outbox" && name === "message_id" ? "uniqueidentifier" : parameterTypes[name];

const backoff = ["base_ms", "factor", "max_ms", "jitter_ms"] as const;
export const filter = ["topic", "source", "error", "error_group", "older_than_ms", "newer_than_ms"] as const;
const content = ["topic", "payload", "correlation_id", "headers", "due_at", "expires_at"] as const;
const messageKey = { inbox: ["source", "message_id"], outbox: ["id"] } as const;

const signatures = {
  Claim: ["now", "owner", "lease_ms", "limit", "max_attempts", ...backoff, "blocks"],
  Ack: ["now", "owner", "items", "processed_by"],
  Abandon: ["now", "owner", "items", "max_attempts", ...backoff, "blocks"],
  Fail: ["now", "owner", "items", "error", "error_group", "blocks"],
  Release: ["now", "owner", "items"],
  Renew: ["now", "owner", "items", "lease_ms", ...backoff],
  Reap: ["now", "limit", "max_attempts", "blocks"],
  // of done messages or of dead ones, as @status says
  Purge: ["now", "limit", "retention_ms", "after_seq", "status"],
  PurgeOperations: ["now", "retention_ms", "limit"],
  Resolve: ["items"],
  Get: messageKey,
  Attempts: messageKey,
  List: ["now", "status", "status_2", "status_3", "leased", "resolution", ...filter, "after_seq", "limit"],
  Stats: ["now"],
  OldestDue: ["now"],
  Due: ["now"],
  Replay: ["now", "items", "ttl_ms"],
  Receive: [
    ...(["now", "revive", "blocks", "items", "source", "message_id"] as const),
    ...content,
    ...(["hash", "partition_key", "error", "error_group"] as const),
  ],
  Mark: ["now", "source", "message_id", "status", "error", "error_group", "blocks"],
  AlreadyProcessed: ["now", "source", "message_id", "hash"],
  TryBegin: ["given_now", "source", "key", "lease_id", "lease_ms", "holder"],
  ChangeKey: ["given_now", "change", "source", "key", "lease_id", "lease_ms"],
  MarkKey: ["now", "source", "key"],
  InspectKey: ["now", "source", "key"],
  PurgeKeys: ["now", "source", "retention_ms", "limit"],
  Enqueue: ["now", "items", "id", "message_id", ...content, "partition_key", "natural_key"],
  ExpireDead: ["now", "owner", "lease_ms", "limit"],
  ListDone: ["after_seq", "limit"],
  Resend: ["now", "items", "ttl_ms"],
  MakeDue: ["now", "error", "limit"],
  Discard: ["items"],
  Archive: ["now", "items", "who", "resolution"],
  AddOperation: ["now", "id", "who", "action", "filter"],
  MoveOperation: ["now", "id", "matched", "done", "last_seq", "ended", "who"],
  PutControl: ["now", "scope", "name", "paused", "per_second", "who"],
  EndControl: ["now", "scope", "name", "paused", "who"],
  Controls: ["scope", "name"],
  ApplyPartitionChanges: [],
} as const satisfies Record<string, readonly ParameterName[] | typeof messageKey>;

export type ProcedureName = keyof typeof signatures;

/** The parameters of a procedure. Its definition and the statements that call it are both made of this. */
export function parametersOf(n: QueueNames, procedure: ProcedureName): readonly ParameterName[] {
  const signature = signatures[procedure];
  return "inbox" in signature ? signature[n.kind] : signature;
}

/** Receive and Enqueue take one message without a partition key as parameters, or any messages as JSON. */
export const received = {
  one: ["now", "revive", "source", "message_id", ...content, "hash"],
  many: ["now", "revive", "blocks", "items"],
} as const;
export const enqueued = {
  one: ["now", "id", "message_id", ...content],
  many: ["now", "items"],
} as const;
