import type { SqlStatement } from "../driver.js";
import { literal } from "../literal.js";
import { type QueueNames, queueId } from "../names.js";
import { limit, now, whole } from "./expressions.js";
import { inSchema } from "./names.js";
import { steps } from "./steps.js";

export const operationsTable = (schema: string) => inSchema(schema, "oncebox_operations");

/** What operators have done: to dead messages, and how far they came; pauses and limits. */
export const createOperations = (schema: string): string =>
  `create table if not exists ${operationsTable(schema)} (
  id text primary key,
  started_at integer not null,
  who text not null,
  action text not null,
  queue text not null,
  filter text not null,
  matched integer not null default 0,
  done integer not null default 0,
  last_seq integer not null default 0,
  ended_at integer,
  -- who went on with it last, after an interruption
  resumed_by text,
  resumed_at integer
) strict`;

/** Of ended operations: one that goes on is needed to resume it. */
export const purgeOperations = (n: QueueNames): SqlStatement =>
  steps(
    "purge operations",
    `delete from ${operationsTable(n.schema)}
where id in (
  select id
  from ${operationsTable(n.schema)}
  where queue = ${literal(queueId(n))} and ended_at < ${now} - ${whole(":retention_ms")}
  limit ${limit}
)`,
    "select changes() as deleted",
  );
