import { memoisePromise } from "../../base/memoise-promise.js";
import { createInbox } from "../../inbox/inbox.js";
import { createOutbox } from "../../outbox/outbox.js";
import type { AnyQueue } from "../../queue/any-queue.js";
import type { Database } from "../../sql/dialect.js";
import { chosenQueues, type MigrateOptions } from "../../sql/migrate.js";
import type { QueueNames } from "../../sql/names.js";
import { wrongSettings } from "../../sql/wrong-settings.js";
import { checkClock } from "./check-clock.js";
import { checkPermissions, type InspectedUser, inspectUser } from "./check-permissions.js";
import { checkRetention, type Retentions } from "./check-retention.js";
import { type Catalogue, checkSchema, readCatalogue } from "./check-schema.js";
import { type Finding, settingFinding } from "./finding.js";

export interface ExamineOptions extends Retentions {
  /** The schema and tables of the queues. */
  readonly tables: MigrateOptions;
}

/** Compares a database with what this version expects. It changes nothing. */
export async function examine(given: Database, options: ExamineOptions): Promise<readonly Finding[]> {
  const { wrong, db } = (await given.dialect.inspection.file?.(given)) ?? { wrong: [], db: given };
  try {
    const settings = [...wrong, ...(await wrongSettings(db))].map(settingFinding);
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
  { user, catalogue, ...retentions }: QueueContext,
): Promise<readonly Finding[]> {
  const schema = user?.seesAll === false ? [unseen(user.name)] : await checkSchema(db, queue, catalogue);
  if (schema.some(isProblem) && schema.every(({ run }) => run === "oncebox migrate")) return schema;
  const permissions = await checkPermissions(db, queue, user);
  const findings = [...schema, ...permissions];
  if (findings.some(isProblem)) return findings; // the messages may not be readable
  const { schema: name, table } = queue;
  const options = { ...(name === "" ? {} : { schema: name }), table };
  const store = queue.kind === "inbox" ? createInbox(db, options) : createOutbox(db, options);
  const retention = await checkRetention(queue.kind, store as Pick<AnyQueue, "list">, retentions).catch(
    (error: Error) => {
      if (db.dialect.classify(error) !== "permanent") throw error;
      return [unreadable(queue, error)];
    },
  );
  return [...findings, ...retention];
}

const isProblem = ({ level }: Finding): boolean => level === "problem";

const unseen = (user: string): Finding => ({
  check: "schema",
  level: "note",
  message: `The user ${user} does not see tables and indexes, so they were not compared. The user that migrates does.`,
  run: null,
});

/** Privileges that the checks do not know of, such as those on the tables where procedures do not read them for their callers. */
const unreadable = ({ table }: QueueNames, { message }: Error): Finding => ({
  check: "permissions",
  level: "problem",
  message: `The messages of ${table} cannot be read: ${message}`,
  run: null,
});

/** Both queues find the same about their common schema. */
const distinct = (findings: readonly Finding[]): readonly Finding[] => [
  ...new Map(findings.map((finding) => [finding.message, finding])).values(),
];
