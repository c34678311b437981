import type { AppJobs } from "../app/jobs.js";
import { memoisePromise } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { createInbox } from "../inbox/inbox.js";
import { createOutbox } from "../outbox/outbox.js";
import type { PurgeWithinOptions } from "../queue/maintenance.js";
import { agesOf } from "../queue/retention.js";
import { type AnyMessage, type AnyQueue, deadState, type QueueKind } from "../queue/work-store.js";
import type { Database } from "../sql/dialect.js";
import { chosenQueues, type MigrateOptions, wrongSettings } from "../sql/migrate.js";
import type { QueueNames } from "../sql/names.js";
import { defaults } from "../sql/store-options.js";
import {
  type Catalogue,
  checkSchema,
  type Finding,
  isProblem,
  note,
  problem,
  readCatalogue,
  runMigrate,
} from "./check-schema.js";
import { type Command, exitCodes, option } from "./command.js";
import { requireDatabaseFile, tenantOf, withApp } from "./load-app.js";
import { print, storeOptions } from "./terminal.js";

export const doctorCommand: Command = {
  name: "doctor",
  summary: "compare the database with what this version expects, and say what to run",
  usage: "doctor [options]",
  options: { ...storeOptions, tenant: option("one tenant's database; all tenants by default") },
  examples: [
    "oncebox doctor --database postgres://app@localhost/orders",
    "oncebox doctor --app dist/app.js --json",
  ],
  async run(input) {
    return withApp(input, async (app) => {
      const findings: (Finding & { readonly database: string })[] = [];
      for (const { db, tables } of await databasesOf(app, tenantOf(input.values, app.tenants))) {
        requireDatabaseFile(db);
        const found = await examine(db, { tables, retentions: app.retentions });
        findings.push(...found.map((finding) => ({ database: db.id, ...finding })));
      }
      const healthy = !findings.some(isProblem);
      const lines = findings.flatMap(({ database, check, level, message, run }) => [
        `${level} (${check}, ${database}): ${message}`,
        ...(run === null ? [] : [`  run: ${run.replaceAll("\n", "\n       ")}`]),
      ]);
      if (healthy) lines.push("No problem was found.");
      print(input, { healthy, findings }, lines.join("\n"));
      return healthy ? exitCodes.ok : exitCodes.failed;
    });
  },
};

interface Examined {
  readonly db: Database;
  /** The schema and tables of the queues. */
  readonly tables: MigrateOptions;
}

async function databasesOf(app: AppJobs, tenant: string | undefined): Promise<readonly Examined[]> {
  const { tenants } = app;
  if (tenants === undefined) return [{ db: app.db, tables: app.migrateOptions }];
  const ids = tenant === undefined ? await tenants.distinctStores() : [tenant];
  const stores = await Promise.all(ids.map((id) => tenants.stores(id)));
  return stores.map(({ db, tables }) => ({ db, tables: omitUndefined(tables) }));
}

interface ExamineOptions extends Pick<Examined, "tables"> {
  readonly retentions?: AppJobs["retentions"];
}

/** Compares a database with what this version expects. It changes nothing. */
export async function examine(given: Database, options: ExamineOptions): Promise<readonly Finding[]> {
  const { wrong, db } = (await given.dialect.inspection.file?.(given)) ?? { wrong: [], db: given };
  try {
    const connection = (await db.wrongConnection?.()) ?? [];
    const settings = [...wrong, ...connection, ...(await wrongSettings(db))].map(
      ({ message, run, tolerable }) =>
        tolerable ? note("settings", message, run) : problem("settings", message, run),
    );
    const findings = [...settings, ...(await checkClock(db))];
    const queues = chosenQueues(db.dialect, options.tables);
    const schema = queues[0]?.schema ?? "";
    const user = await inspectUser(db, schema);
    const catalogue = memoisePromise(() => readCatalogue(db, schema)); // both queues are in one schema
    for (const queue of queues)
      findings.push(...(await examineQueue(db, queue, { ...options, user, catalogue })));
    return distinct(findings);
  } finally {
    if (db !== given) await db.close();
  }
}

interface QueueContext extends ExamineOptions {
  readonly user: InspectedUser | undefined;
  readonly catalogue: () => Promise<Catalogue>;
}

async function examineQueue(
  db: Database,
  queue: QueueNames,
  { user, catalogue, retentions }: QueueContext,
): Promise<readonly Finding[]> {
  const schema = user?.seesAll === false ? [unseenSchema(user)] : await checkSchema(db, queue, catalogue);
  if (schema.some(isProblem) && schema.every(({ run }) => run === runMigrate)) return schema;
  const permissions = await checkPermissions(db, queue, user);
  const findings = [...schema, ...permissions];
  if (findings.some(isProblem)) return findings; // the messages may not be readable
  const { schema: name, table } = queue;
  const options = { ...(name === "" ? {} : { schema: name }), table };
  const store = queue.kind === "inbox" ? createInbox(db, options) : createOutbox(db, options);
  const retention = await checkRetention(
    queue.kind,
    store as Pick<AnyQueue, "list">,
    retentions?.[queue.kind] ?? {},
  ).catch((error: Error) => {
    if (db.dialect.classify(error) !== "permanent") throw error;
    // Privileges that the checks do not know of, such as those on the tables where procedures do not read them for their callers.
    return [problem("permissions", `The messages of ${table} cannot be read: ${error.message}`, null)];
  });
  return [...findings, ...retention];
}

const unseenSchema = ({ name }: InspectedUser): Finding =>
  note(
    "schema",
    `The user ${name} does not see tables and indexes, so they were not compared. The user that migrates does.`,
  );

/** Both queues find the same about their common schema. */
const distinct = (findings: readonly Finding[]): readonly Finding[] => [
  ...new Map(findings.map((finding) => [finding.message, finding])).values(),
];

/** Signatures of webhooks tolerate minutes, and tokens of clouds too. Logs of two machines are compared by the second. */
const tolerableMs = 2_000;

/** Compares the clocks of this machine and of the database. What the round trip makes uncertain is not counted. */
export async function checkClock(
  { dialect, driver }: Pick<Database, "dialect" | "driver">,
  now: () => number = Date.now,
): Promise<readonly Finding[]> {
  const { clock } = dialect.inspection;
  if (clock === undefined) return [];
  await driver.query(clock, {}); // the first call connects
  const before = now();
  const [row] = await driver.query(clock, {});
  const after = now();
  const database = Number(row?.now);
  const skewMs = database > after ? after - database : Math.max(0, before - database);
  if (Math.abs(skewMs) <= tolerableMs) return [];
  const how = skewMs > 0 ? "ahead of" : "behind";
  const message = `This machine's clock is ${Math.round(Math.abs(skewMs) / 1000)} s ${how} the database's. Signatures with a time may be refused.`;
  return [
    problem("clock", message, process.platform === "win32" ? "w32tm /resync" : "timedatectl set-ntp true"),
  ];
}

/** The connected user, as the database knows it. */
interface InspectedUser {
  readonly name: string;
  /** It sees the objects that it has no privileges on. */
  readonly seesAll: boolean;
}

async function inspectUser(
  { dialect, driver }: Database,
  schema: string,
): Promise<InspectedUser | undefined> {
  if (dialect.inspection.user === undefined) return undefined;
  const [row] = await driver.query(dialect.inspection.user, { schema });
  return { name: String(row?.user_name), seesAll: Number(row?.sees_all) === 1 };
}

/** Compares what the user may do with what the functions do. */
async function checkPermissions(
  { dialect, driver }: Database,
  queue: QueueNames,
  user: InspectedUser | undefined,
): Promise<readonly Finding[]> {
  const { privileges, needed, grant, isName } = dialect.inspection;
  if (privileges === undefined || user === undefined) return [];
  const rows = await driver.query(privileges, { schema: queue.schema });
  const isAllowed = (object: string, privilege: string): boolean =>
    rows.some(
      (row) => isName(String(row.name), object) && row.privilege === privilege && Number(row.allowed) === 1,
    );
  const missing = needed(queue)
    .map(({ object, privileges: all }) => ({
      object,
      privileges: all.filter((privilege) => !isAllowed(object, privilege)),
    }))
    .filter((lacking) => lacking.privileges.length > 0);
  if (missing.length === 0) return [];
  const list = missing.map((lacking) => `${lacking.privileges.join(", ")} on ${lacking.object}`).join("; ");
  const unsure = user.seesAll ? "" : " What it may not use it does not see, so it may also be missing.";
  const grants = missing.map((lacking) => grant(queue, lacking, user.name)).join(";\n");
  return [problem("permissions", `The user ${user.name} lacks ${list}.${unsure}`, grants)];
}

const dayMs = 86_400_000;

/** Dead messages that nobody has looked after for so long are worth a note: they may hold personal data. */
const forgottenMs = 90 * dayMs;

/** Messages that are a day past their retention show that no clean-up runs: past the longest one, where some have their own. */
async function checkRetention(
  name: QueueKind,
  queue: Pick<AnyQueue, "list">,
  {
    retentionMs: usualMs = defaults.retentionMs,
    deadRetentionMs: usualDeadMs,
    retentions,
  }: PurgeWithinOptions,
): Promise<readonly Finding[]> {
  const retentionMs = Math.max(...agesOf(retentions, "retentionMs", usualMs));
  const deadRetentionMs = usualDeadMs && Math.max(...agesOf(retentions, "deadRetentionMs", usualDeadMs));
  const hasEnded = async (state: string, ageMs: number, endedAt: (message: AnyMessage) => Date | null) => {
    if (ageMs === Number.POSITIVE_INFINITY) return false;
    const latest = Date.now() - ageMs;
    const { messages } = await queue.list({ state, olderThanMs: ageMs, limit: 100 });
    return messages.some((message) => {
      const at = endedAt(message);
      return at !== null && at.getTime() < latest && lastSeenAt(message, at) < latest;
    });
  };
  const findings: Finding[] = [];
  if (await hasEnded("Done", retentionMs + dayMs, ({ processedAt }) => processedAt))
    findings.push(overdue(name, "done", retentionMs));
  // One with a partition key may be kept because it blocks its key.
  const diedAt = ({ partitionKey, diedAt }: AnyMessage) => (partitionKey === null ? diedAt : null);
  const limitMs = deadRetentionMs === undefined ? forgottenMs : deadRetentionMs + dayMs;
  if (await hasEnded(deadState[name], limitMs, diedAt))
    findings.push(deadRetentionMs === undefined ? forgotten(name) : overdue(name, "dead", deadRetentionMs));
  return findings;
}

const overdue = (name: QueueKind, phase: "done" | "dead", retentionMs: number): Finding =>
  problem(
    "retention",
    `The ${name} has ${phase} messages that are more than a day past the retention of ${Math.round(retentionMs / dayMs)} days. The clean-up does not run, or not for long enough.`,
    "oncebox cleanup",
  );

const forgotten = (name: QueueKind): Finding =>
  note(
    "retention",
    `The ${name} has messages that died more than ${forgottenMs / dayMs} days ago, and no retention of dead messages is set here: they are kept for ever. See deadRetentionMs in docs/operations.md.`,
    `oncebox dead groups --queue ${name}`,
  );

/** A message that arrived again within the retention is kept. */
const lastSeenAt = (message: AnyMessage, otherwise: Date): number =>
  ("lastSeenAt" in message ? message.lastSeenAt : otherwise).getTime();
