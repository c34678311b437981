import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { Logger } from "../queue/logger.js";
import { silentLogger, withFields } from "../queue/logger.js";
import { type RetryPolicy, retryPolicy } from "../queue/retry-policy.js";
import type { DeadLetterListener } from "../queue/work-store.js";
import type { Database } from "./dialect.js";
import { requireIdentifier } from "./names.js";

export interface StoreOptions<Key> {
  /** "infra" by default; none on SQLite. */
  readonly schema?: string;
  /** "Inbox" or "Outbox" by default ("inbox", "outbox" on PostgreSQL). */
  readonly table?: string;
  /** Create or update the schema before first use. Off by default: run `migrate` when you deploy. */
  readonly enableSchemaDeployment?: boolean;
  /** 10 attempts, min(2^attempt s, 60 s) between them, by default. */
  readonly retry?: Partial<RetryPolicy>;
  readonly logger?: Logger;
  /** Names the store in logs: the tenant, say. */
  readonly id?: string;
  /** What `processedBy` says of acknowledged messages; the owner token by default. */
  readonly processedBy?: string;
  readonly onDead?: DeadLetterListener<Key>;
  /** For tests: the time instead of the database's. */
  readonly clock?: () => Date;
}

const known = [
  "schema",
  "table",
  "enableSchemaDeployment",
  "retry",
  "logger",
  "id",
  "processedBy",
  "onDead",
  "clock",
];

export interface ResolvedStoreOptions<Key> {
  readonly schema: string;
  readonly table: string;
  readonly enableSchemaDeployment: boolean;
  readonly retry: RetryPolicy;
  readonly logger: Logger;
  readonly id: string;
  readonly processedBy: string | undefined;
  readonly onDead: DeadLetterListener<Key> | undefined;
  readonly clock: (() => Date) | undefined;
}

export function resolveStoreOptions<Key>(
  db: Database,
  kind: "inbox" | "outbox",
  options: StoreOptions<Key>,
  extra: readonly string[] = [],
): ResolvedStoreOptions<Key> {
  refuseUnknown(options, [...known, ...extra], kind);
  const schema = options.schema ?? db.dialect.defaults.schema;
  const table = options.table ?? db.dialect.defaults[kind];
  if (options.schema !== undefined) requireIdentifier(schema, "schema");
  requireIdentifier(table, "table");
  if (options.processedBy !== undefined && options.processedBy.length > 100) {
    throw new InvalidArgumentError("processedBy can have at most 100 characters.");
  }
  const id = options.id ?? db.id;
  return {
    schema,
    table,
    id,
    enableSchemaDeployment: options.enableSchemaDeployment ?? false,
    retry: retryPolicy(options.retry),
    logger: withFields(options.logger ?? silentLogger, { store: id, queue: table }),
    processedBy: options.processedBy,
    onDead: options.onDead,
    clock: options.clock,
  };
}
