import { randomUUID } from "node:crypto";
import mssql from "mssql";
import { parseMssqlUrl } from "../../src/sql/sqlserver/open.js";
import type { BareIngest, BareMessage, BareQueue } from "./bare-sql.js";

export async function connectBare(url: string, connections: number): Promise<mssql.ConnectionPool> {
  const pool = new mssql.ConnectionPool({
    ...parseMssqlUrl(url),
    requestTimeout: 120_000,
    pool: { max: connections },
  });
  return pool.connect();
}

/** One wide row per message, its natural key unique, and a filtered index to claim by. */
const wideTable = (schema: string) => `create table ${schema}.message (
  id bigint identity(1, 1) not null primary key,
  source nvarchar(255) collate Latin1_General_100_BIN2 not null,
  message_id nvarchar(255) collate Latin1_General_100_BIN2 not null,
  topic nvarchar(255) not null,
  payload nvarchar(max) not null,
  first_seen_at datetime2(3) not null default sysutcdatetime(),
  last_seen_at datetime2(3) not null default sysutcdatetime(),
  deliveries int not null default 1,
  visible_at datetime2(3) not null default sysutcdatetime(),
  locked_until datetime2(3) null,
  owner uniqueidentifier null,
  attempt int not null default 0,
  status tinyint not null default 0,
  unique (source, message_id)
);
create index message_due on ${schema}.message (visible_at, id) where status = 0`;

/** Update first, and insert what is new: two deliveries at once of the same message are the rare case. */
export async function bareIngest(url: string, schema: string, connections: number): Promise<BareIngest> {
  const pool = await connectBare(url, connections);
  await pool.request().batch(`create schema ${schema}`);
  await pool.request().batch(wideTable(schema));
  const one = `update ${schema}.message with (rowlock)
set last_seen_at = sysutcdatetime(), deliveries = deliveries + 1
where source = @source and message_id = @id;
declare @known int = @@rowcount;
if @known = 0
  insert into ${schema}.message (source, message_id, topic, payload) values (@source, @id, @topic, @payload);
select @known as known`;
  const many = `declare @items table (source nvarchar(255), message_id nvarchar(255), topic nvarchar(255), payload nvarchar(max));
insert into @items select source, message_id, topic, payload from openjson(@json) with (
  source nvarchar(255), message_id nvarchar(255) '$.messageId', topic nvarchar(255), payload nvarchar(max));
insert into ${schema}.message (source, message_id, topic, payload)
select i.source, i.message_id, i.topic, i.payload from @items i
where not exists (
  select 1 from ${schema}.message m
  where m.source = i.source collate Latin1_General_100_BIN2
    and m.message_id = i.message_id collate Latin1_General_100_BIN2
);
select @@rowcount as added`;
  return {
    async receive({ source, messageId, topic, payload }) {
      const request = pool.request().input("source", mssql.NVarChar(255), source);
      request.input("id", mssql.NVarChar(255), messageId).input("topic", mssql.NVarChar(255), topic);
      const { recordset } = await request.input("payload", mssql.NVarChar(mssql.MAX), payload).query(one);
      return recordset[0].known === 0;
    },
    async receiveMany(messages) {
      const request = pool.request().input("json", mssql.NVarChar(mssql.MAX), JSON.stringify(messages));
      return (await request.query(many)).recordset[0].added;
    },
    async close() {
      await pool.close();
    },
  };
}

/** The payload is written once; what a claim and an ack rewrite is some 60 bytes. The ack deletes the queue row. */
export async function bareQueue(
  url: string,
  schema: string,
  pending: number,
  payloadBytes: number,
): Promise<BareQueue> {
  const pool = await connectBare(url, 1);
  await pool.request().batch(`create schema ${schema}`);
  await pool.request().batch(`create table ${schema}.message (
  id bigint not null primary key, source nvarchar(255) not null, message_id nvarchar(255) not null,
  topic nvarchar(255) not null, payload nvarchar(max) not null
);
create table ${schema}.queue (
  id bigint not null primary key, visible_at datetime2(3) not null, locked_until datetime2(3) null,
  owner uniqueidentifier null, attempt int not null default 0
);
create index queue_due on ${schema}.queue (visible_at, id)`);
  await pool.request().batch(`with n as (select 1 as i union all select i + 1 from n where i < ${pending})
insert into ${schema}.message (id, source, message_id, topic, payload)
select i, N'bench', concat(N'm-', i), N'order.created', replicate(cast(N'x' as nvarchar(max)), ${payloadBytes}) from n
option (maxrecursion 0);
insert into ${schema}.queue (id, visible_at)
select id, dateadd(millisecond, id - ${pending}, sysutcdatetime()) from ${schema}.message`);
  const owner = randomUUID();
  const claim = `declare @claimed table (id bigint not null primary key);
update ${schema}.queue
set owner = @owner, locked_until = dateadd(second, 30, sysutcdatetime())
output inserted.id into @claimed (id)
from ${schema}.queue
inner join (
  select top (@limit) r.id from ${schema}.queue r with (updlock, readpast, rowlock, readcommittedlock)
  where r.visible_at <= sysutcdatetime() and (r.locked_until is null or r.locked_until < sysutcdatetime())
  order by r.visible_at, r.id
) p on p.id = queue.id
where queue.locked_until is null or queue.locked_until < sysutcdatetime();
select q.id as id, m.source as source, m.message_id as message_id, m.topic as topic, m.payload as payload, q.attempt as attempt
from @claimed c
inner join ${schema}.queue q on q.id = c.id
inner join ${schema}.message m on m.id = c.id`;
  const ack = `delete from ${schema}.queue
where owner = @owner and id in (select cast(value as bigint) from openjson(@ids));
select @@rowcount as deleted`;
  const asOwner = () => pool.request().input("owner", mssql.UniqueIdentifier, owner);
  return {
    async claim(limit) {
      const { recordset } = await asOwner().input("limit", mssql.Int, limit).query<BareMessage>(claim);
      return recordset;
    },
    async ack(messages) {
      const ids = JSON.stringify(messages.map(({ id }) => Number(id)));
      const { recordset } = await asOwner().input("ids", mssql.NVarChar(mssql.MAX), ids).query(ack);
      return recordset[0].deleted;
    },
    async close() {
      await pool.close();
    },
  };
}
