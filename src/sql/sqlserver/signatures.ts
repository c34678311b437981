import type { QueueNames } from "../names.js";

const parameterTypes = {
  now: "datetime2(3) = null",
  owner: "uniqueidentifier",
  lease_ms: "float",
  limit: "int",
  max_attempts: "int",
  base_ms: "float",
  factor: "float",
  max_ms: "float",
  jitter_ms: "float",
  items: "nvarchar(max)",
  processed_by: "nvarchar(100)",
  error: "nvarchar(max)",
  retention_ms: "float",
  ttl_ms: "float",
  after_seq: "bigint",
  source: "nvarchar(255)",
  message_id: "nvarchar(255)",
  id: "uniqueidentifier",
  status: "tinyint",
  status_2: "tinyint",
  status_3: "tinyint",
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
  due_at: "datetime2(3)",
  expires_at: "datetime2(3)",
} as const;

export type ParameterName = keyof typeof parameterTypes;

/** A parameter has the same type in every procedure, except a message's id: text in the inbox, a GUID in the outbox. */
export const parameterType = (kind: QueueNames["kind"], name: ParameterName): string =>
  kind === "outbox" && name === "message_id" ? "uniqueidentifier" : parameterTypes[name];

const backoff = ["base_ms", "factor", "max_ms", "jitter_ms"] as const;
const content = ["topic", "payload", "correlation_id", "headers", "due_at", "expires_at"] as const;

/** The parameters of the procedures. Their definitions and the statements that call them are both made of this. */
export const signatures = {
  Claim: ["now", "owner", "lease_ms", "limit", "max_attempts", ...backoff, "blocks"],
  Ack: ["now", "owner", "items", "processed_by"],
  Abandon: ["now", "owner", "items", "max_attempts", ...backoff, "blocks"],
  Fail: ["now", "owner", "items", "error", "blocks"],
  Release: ["now", "owner", "items"],
  Renew: ["now", "owner", "items", "lease_ms", ...backoff],
  Reap: ["now", "limit", "max_attempts", "blocks"],
  Purge: ["now", "limit", "retention_ms", "after_seq"],
  Resolve: ["items"],
  GetByKey: ["source", "message_id"],
  GetById: ["id"],
  List: [
    "now",
    "status",
    "status_2",
    "status_3",
    "leased",
    "topic",
    "source",
    "error",
    "older_than_ms",
    "newer_than_ms",
    "after_seq",
    "limit",
  ],
  Stats: ["now"],
  OldestDue: ["now"],
  Due: ["now"],
  Replay: ["now", "items", "ttl_ms"],
  Receive: ["now", "source", "message_id", ...content, "hash", "revive"],
  ReceiveMany: ["now", "items", "revive"],
  AlreadyProcessed: ["now", "source", "message_id", "hash"],
  ReceiveKeyed: ["now", "items", "revive"],
  Mark: ["now", "source", "message_id", "status", "error", "blocks"],
  Enqueue: ["now", "id", "message_id", ...content],
  EnqueueMany: ["now", "items"],
  EnqueueKeyed: ["now", "items"],
  ExpireDead: ["now", "owner", "lease_ms", "limit"],
  ListDone: ["after_seq", "limit"],
  Resend: ["now", "items", "ttl_ms"],
  MakeDue: ["now", "error", "limit"],
  EnqueueArrivals: [],
  LeavePartition: ["items"],
} as const satisfies Record<string, readonly ParameterName[]>;
