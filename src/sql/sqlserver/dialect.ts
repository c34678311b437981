import type { Dialect } from "../dialect.js";
import { statement } from "../driver.js";
import type { Inspection, WrongSetting } from "../inspection.js";
import { quote } from "./expressions.js";
import { isNameTaken } from "./faults.js";
import { keyStatements } from "./keys.js";
import { ackAndEnqueue, inboxStatements, outboxStatements, pollStatement, procedures } from "./queue.js";
import { sqlServerReceiving } from "./receive.js";
import { ledger, migrations, routines, sentView } from "./schema.js";

const objects = statement(
  "inspect objects",
  `select case rtrim(o.type) when 'U' then 'table' when 'V' then 'view' when 'TR' then 'trigger' else 'routine' end as kind,
  o.name, m.definition as text
from sys.objects o
left join sys.sql_modules m on m.object_id = o.object_id
where o.schema_id = schema_id(@schema) and o.type in ('U', 'V', 'TR', 'P', 'FN', 'IF', 'TF')
union all
select 'index', i.name, null
from sys.indexes i
inner join sys.objects o on o.object_id = i.object_id
where o.schema_id = schema_id(@schema) and i.name is not null and i.is_disabled = 0`,
);

const columns = statement(
  "inspect columns",
  `select o.name as table_name, c.name
from sys.columns c
inner join sys.objects o on o.object_id = c.object_id
where o.schema_id = schema_id(@schema) and o.type = 'U'`,
);

const privileges = statement(
  "inspect privileges",
  // not as a condition: it would be evaluated for the objects of other schemas too
  `select o.name, 'execute' as privilege,
  has_perms_by_name(quotename(@schema) + '.' + quotename(o.name), 'OBJECT', 'EXECUTE') as allowed
from sys.objects o
where o.schema_id = schema_id(@schema) and o.type = 'P'`,
);

/** The functions' user does not call these: some are called only by other procedures, some are the operators' or the producers'. */
const notOfFunctions: readonly string[] = [
  "ApplyPartitionChanges",
  ...["Discard", "Archive", "AddOperation", "MoveOperation", "PutControl", "EndControl"],
  ...["Enqueue", "Receive"],
];

/** OPENJSON needs it. */
const leastCompatibility = 130;
/** SQL Server 2017 has STRING_AGG and TRIM. */
const leastVersion = 14;

/** Babelfish stores names in lower case, and appends the table and a hash to the name of an index. */
function isName(live: string, given: string): boolean {
  const [stored, wanted] = [live.toLowerCase(), given.toLowerCase()];
  return (
    stored === wanted ||
    (stored.startsWith(wanted) && /^[a-z_]*[0-9a-f]{32}$/.test(stored.slice(wanted.length)))
  );
}

const inspection: Inspection = {
  isName,
  objects,
  columns,
  clock: statement(
    "inspect clock",
    "select cast(datediff(second, '2020-01-01', sysutcdatetime()) as bigint) * 1000 + datepart(millisecond, sysutcdatetime()) + 1577836800000 as now",
  ),
  user: statement(
    "inspect user",
    `select user_name() as user_name,
  case
    when is_srvrolemember('sysadmin') = 1 or is_member('db_owner') = 1
      or has_perms_by_name(db_name(), 'DATABASE', 'VIEW DEFINITION') = 1
      or has_perms_by_name(quotename(@schema), 'SCHEMA', 'VIEW DEFINITION') = 1 then 1
    else 0
  end as sees_all`,
  ),
  privileges,
  needed: (queue) =>
    procedures(queue)
      .filter(({ suffix }) => !notOfFunctions.includes(suffix))
      .map(({ suffix }) => ({ object: `${queue.table}_${suffix}`, privileges: ["execute"] })),
  grant: ({ schema }, { object }, user) =>
    `grant execute on ${quote(schema)}.${quote(object)} to ${quote(user)}`,
  settings: statement(
    "inspect settings",
    // Babelfish has a fixed level and version that say nothing; of Azure SQL and Fabric (from edition 5) the version does not
    `select is_read_committed_snapshot_on as snapshot,
  case when serverproperty('BabelfishVersion') is null then compatibility_level else ${leastCompatibility} end as compatibility,
  case
    when serverproperty('BabelfishVersion') is null and cast(serverproperty('EngineEdition') as int) < 5
      then cast(parsename(cast(serverproperty('ProductVersion') as nvarchar(128)), 4) as int)
    else ${leastVersion}
  end as version
from sys.databases
where name = db_name()`,
  ),
  wrongSettings({ snapshot, compatibility, version }) {
    const wrong: WrongSetting[] = [];
    if (Number(version) < leastVersion)
      wrong.push({
        message: `The server's version is ${Number(version)}; it must be ${leastVersion} (SQL Server 2017) or newer.`,
        run: "select serverproperty('ProductVersion')",
        tolerable: false,
      });
    if (Number(compatibility) < leastCompatibility)
      wrong.push({
        message: `The compatibility level is ${Number(compatibility)}; it must be ${leastCompatibility} or more.`,
        run: "alter database current set compatibility_level = 150",
        tolerable: false,
      });
    if (!snapshot)
      wrong.push({
        message:
          "READ_COMMITTED_SNAPSHOT is off: your own queries on the tables wait for writers, get and list fail where they wait for an open transaction for some seconds, and stats may count what is not committed yet.",
        run: "alter database current set read_committed_snapshot on with rollback immediate",
        tolerable: true,
      });
    return wrong;
  },
};

/** SQL Server, as data. */
export const sqlServerDialect: Dialect<"sqlserver"> = {
  ...sqlServerReceiving,
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
    `declare @result int;
exec @result = sp_getapplock @Resource = @name, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 0;
select case when @result >= 0 then 1 else 0 end as locked`,
  ),
  batchSeparator: "\ngo\n",
  fromTime: (value) => (value instanceof Date ? value : new Date(String(value))),
};
