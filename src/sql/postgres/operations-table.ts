import { type SqlStatement, statement } from "../driver.js";
import { literal } from "../literal.js";
import { type QueueNames, queueId } from "../names.js";
import { ms, now } from "./expressions.js";
import { quote } from "./names.js";

export const operationsTable = (schema: string) => `${quote(schema)}.${quote("oncebox_operations")}`;

/** What operators have done: to dead messages, and how far they came; pauses and limits. */
export const createOperations = (schema: string): string =>
  `create table if not exists ${operationsTable(schema)} (
  id uuid primary key,
  started_at timestamptz not null,
  who varchar(255) not null,
  action varchar(20) not null,
  queue varchar(100) not null,
  filter text not null,
  matched bigint not null default 0,
  done bigint not null default 0,
  last_seq bigint not null default 0,
  ended_at timestamptz,
  -- who went on with it last, after an interruption
  resumed_by varchar(255),
  resumed_at timestamptz
)`;

/** Of ended operations: one that goes on is needed to resume it. */
export const purgeOperations = (n: QueueNames): SqlStatement =>
  statement(
    "purge operations",
    `with gone as (
  delete from ${operationsTable(n.schema)}
  where id = any (array(
      select id
      from ${operationsTable(n.schema)}
      where queue = ${literal(queueId(n))} and ended_at < ${now} - ${ms(":retention_ms::float8")}
      limit (select :limit::int)
    ))
  returning id
)
select count(*)::int as deleted
from gone`,
  );
