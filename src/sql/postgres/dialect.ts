import type { Dialect } from "../dialect.js";
import { statement } from "../driver.js";
import type { Inspection } from "../inspection.js";
import type { QueueNames } from "../names.js";
import { quote } from "./expressions.js";
import { isNameTaken } from "./faults.js";
import { keyStatements } from "./keys.js";
import { ackAndEnqueue } from "./leases.js";
import { inboxStatements, outboxStatements, pollStatement } from "./queue.js";
import { postgresReceiving } from "./receive.js";
import { ledger, migrations, routines, sentView } from "./schema.js";

/** An index that a failed `create index concurrently` left is not used, so it counts as missing. */
const objects = statement(
  "inspect objects",
  `select case c.relkind when 'v' then 'view' when 'i' then 'index' else 'table' end as kind,
  c.relname::text as name, null::text as text
from pg_class c
inner join pg_namespace n on n.oid = c.relnamespace
left join pg_index i on i.indexrelid = c.oid
where n.nspname = :schema::text and c.relkind in ('r', 'p', 'v', 'i') and coalesce(i.indisvalid, true)
union all
select 'routine', p.proname::text, p.prosrc
from pg_proc p
inner join pg_namespace n on n.oid = p.pronamespace
where n.nspname = :schema::text
union all
select 'trigger', t.tgname::text, null
from pg_trigger t
inner join pg_class c on c.oid = t.tgrelid
inner join pg_namespace n on n.oid = c.relnamespace
where n.nspname = :schema::text and not t.tgisinternal and t.tgenabled <> 'D'`,
);

const columns = statement(
  "inspect columns",
  `select c.relname::text as table_name, a.attname::text as name
from pg_attribute a
inner join pg_class c on c.oid = a.attrelid
inner join pg_namespace n on n.oid = c.relnamespace
where n.nspname = :schema::text and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped`,
);

const privileges = statement(
  "inspect privileges",
  `select n.nspname::text as name, 'usage' as privilege, has_schema_privilege(n.oid, 'usage') as allowed
from pg_namespace n
where n.nspname = :schema::text
union all
select c.relname::text, p.privilege, has_table_privilege(c.oid, p.privilege)
from pg_class c
inner join pg_namespace n on n.oid = c.relnamespace
cross join (values ('select'), ('insert'), ('update'), ('delete')) as p(privilege)
where n.nspname = :schema::text and c.relkind in ('r', 'p')`,
);

const allPrivileges = ["select", "insert", "update", "delete"];
const withoutUpdate = ["select", "insert", "delete"];

/** As infra/sql/users-postgres.sql grants them. */
const tablePrivileges: Readonly<Record<string, readonly string[]>> = {
  _messages: allPrivileges,
  _state: allPrivileges,
  _done: withoutUpdate,
  _attempts: withoutUpdate,
  _controls: ["select", "update"],
  _unhandled: allPrivileges,
  _keys: allPrivileges,
  _partition_queue: withoutUpdate,
  _partition_lock: allPrivileges,
  _pending_arrivals: withoutUpdate,
};

const inspection: Inspection = {
  isName: (live, given) => live === given,
  objects,
  columns,
  clock: statement("inspect clock", "select extract(epoch from clock_timestamp()) * 1000 as now"),
  user: statement("inspect user", "select current_user::text as user_name, true as sees_all"),
  privileges,
  needed: (queue: QueueNames) => [
    { object: queue.schema, privileges: ["usage"] },
    ...Object.entries(tablePrivileges)
      .filter(([suffix]) => suffix !== "_keys" || queue.kind === "inbox")
      .map(([suffix, names]) => ({ object: `${queue.table}${suffix}`, privileges: names })),
  ],
  grant: ({ schema }, missing, user) =>
    missing.privileges.includes("usage")
      ? `grant usage on schema ${quote(schema)} to ${quote(user)}`
      : `grant ${missing.privileges.join(", ")} on ${quote(schema)}.${quote(missing.object)} to ${quote(user)}`,
  settings: undefined,
  wrongSettings: () => [],
};

/** PostgreSQL, as data. */
export const postgresDialect: Dialect<"postgres"> = {
  ...postgresReceiving,
  inbox: inboxStatements,
  outbox: outboxStatements,
  keys: keyStatements,
  ackAndEnqueue,
  pollStatement,
  migrations,
  routines,
  sentView,
  ledger,
  inspection,
  isNameTaken,
  idempotencyLock: statement(
    "idempotency lock",
    "select pg_try_advisory_xact_lock(hashtextextended(:name::text, 7093)) as locked",
  ),
  batchSeparator: ";\n",
  // A Date cuts off fractions; a double of epoch seconds may be up to 0.0005 ms below the whole millisecond.
  fromTime: (value) => new Date((value as number) + 0.0005),
};
