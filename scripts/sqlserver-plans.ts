/**
 * Prints the plan of each procedure, and of each read of operators, on a SQL Server, on an empty and on a filled database, and ends with 1 when one of them
 * scans a queue's table: npm run sqlserver:plans -- "mssql://sa:…@server/database". It works in a schema of its own, which it
 * drops again.
 */
import { randomUUID } from "node:crypto";
import mssql from "mssql";
import { createInbox, createOutbox, migrate } from "../src/index.js";
import { sqlServerDialect } from "../src/sql/sqlserver/dialect.js";
import { openSqlServer } from "../src/sql/sqlserver/index.js";
import { parseMssqlUrl } from "../src/sql/sqlserver/open.js";
import { operatorReads, readBatch } from "../src/sql/sqlserver/operators.js";
import { procedures } from "../src/sql/sqlserver/queue.js";
import { mayScan, scansIn } from "./sqlserver-plan-scans.js";

const url = process.argv[2];
if (url === undefined) {
  console.error("Name a database: npm run sqlserver:plans -- mssql://user:password@server/database");
  process.exit(2);
}

const schema = `plans_${randomUUID().slice(0, 8)}`;
const { names, defaults } = sqlServerDialect;
const queues = [names("inbox", schema, defaults.inbox), names("outbox", schema, defaults.outbox)];

const parametersOf = (text: string) =>
  [...text.slice(0, text.indexOf("\nas\n")).matchAll(/@(\w+) /g)].map(([, name]) => `@${name} = null`);

/** Everything that has a plan, each as a batch, under a name such as `Inbox_Claim` or `Inbox dead groups`. */
const batches = queues.flatMap((n) => [
  ...procedures(n).map(({ suffix, name, text }) => ({
    name: `${n.table}_${suffix}`,
    text: `exec ${name} ${parametersOf(text).join(", ")}`,
  })),
  ...Object.values(operatorReads(n)).map((read) => ({
    name: `${n.table} ${read.name}`,
    text: readBatch(n, read),
  })),
]);

/** Plans instead of results, on one connection. Undefined when the server gives none. */
async function plansOf(calls: readonly string[]): Promise<readonly string[] | undefined> {
  const pool = new mssql.ConnectionPool({ ...parseMssqlUrl(url!), pool: { max: 1, min: 1 } });
  await pool.connect();
  try {
    await pool.request().batch("set showplan_xml on");
    const plans: string[] = [];
    for (const call of calls) {
      const { recordsets } = await pool.request().batch(call);
      const text = (recordsets as unknown as Record<string, unknown>[][])
        .flat()
        .map((row) => String(Object.values(row)[0]))
        .join("\n");
      if (!text.includes("<ShowPlanXML")) return undefined;
      plans.push(text);
    }
    return plans;
  } catch (error) {
    if (calls.length > 1) throw error;
    return undefined;
  } finally {
    await pool.close();
  }
}

async function check(what: string): Promise<boolean> {
  const plans = (await plansOf(batches.map(({ text }) => text))) ?? [];
  let isGood = plans.length === batches.length;
  for (const [index, plan] of plans.entries()) {
    const { name } = batches[index]!;
    const scans = scansIn(name, plan);
    const wrong = scans.filter((scan) => !mayScan(scan));
    console.log(`${wrong.length === 0 ? "ok  " : "SCAN"} ${what}: ${name}`);
    for (const { operator, table, index: used } of scans)
      console.log(`       ${operator} of ${table} ${used}`);
    if (wrong.length > 0) isGood = false;
  }
  return isGood;
}

async function fill(db: ReturnType<typeof openSqlServer>): Promise<void> {
  const outbox = createOutbox(db, { schema });
  const inbox = createInbox(db, { schema });
  for (let batch = 0; batch < 20; batch++) {
    const some = Array.from({ length: 1_000 }, (_, n) => ({
      topic: "t",
      payload: "p",
      ...(n % 2 === 0 ? { partitionKey: `key ${n % 50}` } : {}),
    }));
    await outbox.enqueue(some);
    await inbox.enqueue(some.map((one, n) => ({ ...one, source: "s", messageId: `${batch} ${n}` })));
  }
}

async function drop(db: ReturnType<typeof openSqlServer>): Promise<void> {
  const run = (text: string) => db.driver.query({ name: "drop", text, unprepared: true }, {});
  const rows = await run(`select rtrim(o.type) as type, o.name as name from sys.objects o
where o.schema_id = schema_id(N'${schema}') and o.type in ('P', 'IF', 'V', 'U')
order by charindex(rtrim(o.type), 'P IF V U')`);
  const words: Record<string, string> = { P: "procedure", IF: "function", V: "view", U: "table" };
  for (const { type, name } of rows) await run(`drop ${words[String(type)]} [${schema}].[${String(name)}]`);
  await run(`drop schema if exists [${schema}]`);
}

if ((await plansOf(["select 1 as one"])) === undefined) {
  console.log("This server gives no plans (set showplan_xml), so there is nothing to check.");
  process.exit(0);
}
const db = openSqlServer({ url, maxConnections: 2 });
let isGood = false;
try {
  await migrate(db, { schema });
  isGood = await check("empty");
  await fill(db);
  isGood = (await check("filled")) && isGood;
} finally {
  await drop(db);
  await db.close();
}
process.exit(isGood ? 0 : 1);
