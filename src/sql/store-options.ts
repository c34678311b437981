import { type Logger, type LoggerOption, loggerOf, loggerProblem, withFields } from "../base/logger.js";
import { guardedMetrics, type Metrics, type Tracing } from "../base/telemetry.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import { type RetryPolicy, retryPolicy, usualRetentionMs } from "../queue/retry-policy.js";
import { checkTopics, type TopicSchemas } from "../queue/topics.js";
import type { DeadLetterListener } from "../queue/work-store.js";
import type { ReceivingDatabase } from "./dialect.js";
import { requireIdentifier } from "./names.js";

/** Options of inboxes and outboxes. */
export interface StoreOptions<Key, Topics extends TopicSchemas = TopicSchemas> {
  /**
   * A schema for each topic: zod's or that of any other library of Standard Schema. It types `data` and checks it: before a handler, and
   * when a message is put into an outbox. An outbox then takes no other topics.
   */
  readonly topics?: Topics | undefined;
  /** "infra" by default; none on SQLite. */
  readonly schema?: string;
  /** "Inbox" or "Outbox" by default ("inbox", "outbox" on PostgreSQL). */
  readonly table?: string;
  /**
   * Create or update the schema before first use. Off by default: run `migrate` when you deploy. A Lambda function that
   * only receives webhooks never does it.
   */
  readonly enableSchemaDeployment?: boolean;
  /** 10 attempts, min(2^attempt s, 60 s) between them, by default. */
  readonly retry?: Partial<RetryPolicy>;
  readonly logger?: LoggerOption;
  readonly metrics?: Metrics;
  /** Stores the current trace context in the headers of new messages. */
  readonly tracing?: Tracing;
  /** Names the store in logs: the tenant, say. */
  readonly id?: string;
  /** The value of `processedBy` of acknowledged messages; by default the owner token, which is another one for each claim. */
  readonly processedBy?: string;
  readonly onDead?: DeadLetterListener<Key>;
  /**
   * What a dead message does to the messages behind it with the same partition key: `skip` (the default) makes the next
   * one the head, `block` keeps them blocked until the dead one is replayed or marked as processed.
   */
  readonly deadInPartition?: "skip" | "block";
  /** For tests: the time instead of the database's. SQL Server refuses it: its procedures know no clock but the server's. */
  readonly clock?: () => Date;
}

const known = [
  "topics",
  "schema",
  "table",
  "enableSchemaDeployment",
  "retry",
  "logger",
  "metrics",
  "tracing",
  "id",
  "processedBy",
  "onDead",
  "deadInPartition",
  "clock",
];

export interface ResolvedStoreOptions<Key> {
  readonly topics: TopicSchemas | undefined;
  readonly schema: string;
  readonly table: string;
  readonly enableSchemaDeployment: boolean;
  readonly retry: RetryPolicy;
  readonly logger: Logger;
  readonly metrics: Metrics | undefined;
  readonly tracing: Tracing | undefined;
  /** Its name in metrics and traces. */
  readonly queue: string;
  readonly id: string;
  readonly processedBy: string | undefined;
  readonly onDead: DeadLetterListener<Key> | undefined;
  readonly blockOnDead: boolean;
  readonly clock: (() => Date) | undefined;
}

/** Refuses in plain JavaScript what TypeScript refuses at compile time. */
function requireTypes(kind: string, options: StoreOptions<never>): void {
  const {
    onDead,
    deadInPartition,
    deadOnRedelivery,
    clock,
    logger,
    id,
    processedBy,
    enableSchemaDeployment,
  } = options as Record<string, unknown>;
  const isText = (value: unknown, most: number) =>
    typeof value === "string" && value !== "" && value.length <= most;
  const problems = [
    onDead === undefined || typeof onDead === "function" || "onDead must be a function",
    deadInPartition === undefined ||
      deadInPartition === "skip" ||
      deadInPartition === "block" ||
      'deadInPartition must be "skip" or "block"',
    deadOnRedelivery === undefined ||
      deadOnRedelivery === "keep" ||
      deadOnRedelivery === "revive" ||
      'deadOnRedelivery must be "keep" or "revive"',
    clock === undefined || typeof clock === "function" || "clock must be a function that returns a Date",
    loggerProblem(logger) ?? true,
    id === undefined || isText(id, 1_000) || "id must be a non-empty string",
    processedBy === undefined ||
      isText(processedBy, 100) ||
      "processedBy must be a string of 1 to 100 characters",
    enableSchemaDeployment === undefined ||
      typeof enableSchemaDeployment === "boolean" ||
      "enableSchemaDeployment must be true or false",
  ].filter((problem) => problem !== true);
  if (problems.length > 0) throw new InvalidArgumentError(`${kind}: ${problems.join("; ")}.`);
}

export function resolveStoreOptions<Key>(
  db: ReceivingDatabase,
  kind: "inbox" | "outbox",
  options: StoreOptions<Key>,
): ResolvedStoreOptions<Key> {
  refuseUnknown(options, kind === "inbox" ? [...known, "deadOnRedelivery"] : known, kind);
  const schema = options.schema ?? db.dialect.defaults.schema;
  const table = options.table ?? db.dialect.defaults[kind];
  if (options.schema !== undefined) requireIdentifier(schema, "schema");
  requireIdentifier(table, "table");
  requireTypes(kind, options);
  if (options.clock !== undefined && db.dialect.ownClock)
    throw new InvalidArgumentError(
      `${kind}: clock cannot be given on SQL Server, whose procedures read the server's clock. Test with SQLite, or pass no clock.`,
    );
  checkTopics(options.topics, kind);
  const id = options.id ?? db.id;
  return {
    topics: options.topics,
    schema,
    table,
    id,
    enableSchemaDeployment: options.enableSchemaDeployment ?? false,
    retry: retryPolicy(options.retry),
    logger: withFields(loggerOf(options.logger), { store: id, queue: table }),
    metrics: options.metrics === undefined ? undefined : guardedMetrics(options.metrics),
    tracing: options.tracing,
    queue: table.toLowerCase(),
    processedBy: options.processedBy,
    onDead: options.onDead,
    blockOnDead: options.deadInPartition === "block",
    clock: options.clock,
  };
}

/** The failed attempts of a message that are kept: the last ones. */
export const keptAttempts = 50;

/** Where a message's counters stop, before their columns end: a message may be retried for ever. */
export const mostCounted = { attempts: 1_000_000_000, crashes: 10_000 } as const;

/** A limit of attempts as a database takes it. `Infinity` is a number that no message comes to. */
export const attemptLimit = (maxAttempts: number): number => Math.min(maxAttempts, mostCounted.attempts + 2);

export const defaults = {
  leaseMs: 30_000,
  batchSize: 50,
  reapBatchSize: 200,
  purgeBatchSize: 500,
  retentionMs: usualRetentionMs,
  listLimit: 100,
  operationBatchSize: 200,
  operationRetentionMs: 90 * 24 * 60 * 60 * 1000,
} as const;

/** Messages that one recorded call names: its record has the keys of all that it changed. */
export const maxKeys = 1_000;

/** What `activity` reads at most: beside the unfinished messages, `most` rows each of messages, done messages and dead messages. */
export const activityLimits = {
  window: 20_000,
  most: 100_000,
  maxUnfinished: 1_000_000,
  buckets: 48,
  maxBuckets: 500,
  sinceMs: 31 * 24 * 60 * 60 * 1000,
} as const;

/** The sources of an inbox among which a message is looked for by its message id alone. */
export const maxSources = 1_000;

/** How long a topic without a handler is listed after its last message: 30 days. */
export const unhandledKeptMs = 30 * 24 * 60 * 60 * 1000;
