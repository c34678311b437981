import type { Database } from "../sql/dialect.js";
import type { SqlRow } from "../sql/driver.js";
import { comparableName, type SchemaObject, schemaObjects } from "../sql/inspection.js";
import { type QueueNames, queueId } from "../sql/names.js";

/** What `doctor` compares. */
export const checks = ["schema", "permissions", "settings", "clock", "retention"] as const;

/** Something that `doctor` found. */
export interface Finding {
  readonly check: (typeof checks)[number];
  /** A note says what could be better, or what could not be checked. */
  readonly level: "problem" | "note";
  readonly message: string;
  /** A command or a statement that puts it right; null where there is none. */
  readonly run: string | null;
}

export const problem = (check: Finding["check"], message: string, run: string | null): Finding => ({
  check,
  level: "problem",
  message,
  run,
});

export const note = (check: Finding["check"], message: string, run: string | null = null): Finding => ({
  check,
  level: "note",
  message,
  run,
});

export const isProblem = ({ level }: Finding): boolean => level === "problem";

/** What puts most of it right. */
export const runMigrate = "oncebox migrate";

/** What the database says about a schema. */
export interface Catalogue {
  readonly objects: readonly SqlRow[];
  readonly columns: readonly SqlRow[];
}

export async function readCatalogue({ dialect, driver }: Database, schema: string): Promise<Catalogue> {
  const { objects, columns } = dialect.inspection;
  return {
    objects: await driver.query(objects, { schema }),
    columns: await driver.query(columns, { schema }),
  };
}

/** Compares the tables, columns, indexes, views and routines of a queue, and the tables that queues share, with what `migrate` creates. */
export async function checkSchema(
  db: Database,
  queue: QueueNames,
  read: () => Promise<Catalogue>,
): Promise<readonly Finding[]> {
  const ledger = await checkLedger(db, queue);
  if (ledger.some(isProblem)) return ledger; // the objects would be found missing one by one
  const { inspection, ledger: shared, migrations, routines } = db.dialect;
  const prepared = shared.prepare(queue.schema);
  const created = migrations[queue.kind].flatMap(({ up }) => up(queue));
  const renewed = routines(queue);
  const sharedTables = schemaObjects(prepared).filter(({ kind }) => kind === "table");
  const renewedNames = new Set([...sharedTables, ...schemaObjects(renewed)].map(nameOf));
  const batches = [...prepared, ...created, ...renewed];
  const comparison: Comparison = { ...(await read()), batches, isName: inspection.isName };
  const findings = schemaObjects(batches).flatMap((object) =>
    checkObject(object, comparison, renewedNames.has(nameOf(object)) ? runMigrate : object.batch),
  );
  return [...ledger, ...findings];
}

const nameOf = ({ kind, name }: SchemaObject): string => `${kind} ${name}`;

/** Compares the applied migrations. The functions' user may not be allowed to see them. */
async function checkLedger(db: Database, queue: QueueNames): Promise<readonly Finding[]> {
  const { dialect } = db;
  const { table } = queue;
  const applied = await appliedMigrations(db, queue).catch((error: unknown) => {
    if (dialect.classify(error) !== "permanent") throw error;
    return undefined;
  });
  if (applied === undefined)
    return [
      note("schema", `This user may not read which migrations ${table} has. The user that migrates can.`),
    ];
  const known = dialect.migrations[queue.kind];
  const pending = known.filter(({ number }) => !applied.has(number));
  const newer = [...applied].filter((number) => !known.some((one) => one.number === number));
  const findings: Finding[] = [];
  if (pending.length > 0) {
    const names = pending.map(({ number, name }) => `${number} ${name}`).join(", ");
    findings.push(problem("schema", `Migrations of ${table} are missing: ${names}.`, runMigrate));
  }
  if (newer.length > 0) {
    const message = `${table} has the migration ${newer.join(", ")} of a newer version.`;
    findings.push(problem("schema", message, "npm install oncebox@latest"));
  }
  return findings;
}

/** The numbers of the migrations that were applied: none where the schema is missing. */
export async function appliedMigrations(
  { dialect, driver }: Database,
  queue: QueueNames,
): Promise<ReadonlySet<number>> {
  try {
    const rows = await driver.query(dialect.ledger.applied(queue.schema), { queue: queueId(queue) });
    return new Set(rows.map(({ number }) => Number(number)));
  } catch (error) {
    if (!dialect.isSchemaMissing(error)) throw error;
    return new Set();
  }
}

interface Comparison extends Catalogue {
  /** Everything that creates the schema. */
  readonly batches: readonly string[];
  readonly isName: (live: string, given: string) => boolean;
}

function checkObject(
  object: SchemaObject,
  { objects, columns, batches, isName }: Comparison,
  run: string,
): readonly Finding[] {
  const { kind, name } = object;
  const found = objects.find((row) => row.kind === kind && isName(comparableName(String(row.name)), name));
  if (found === undefined) return [problem("schema", `The ${kind} ${name} is missing.`, run)];
  if (kind !== "table") {
    const isSame = typeof found.text !== "string" || isText(found.text, batches);
    return isSame ? [] : [problem("schema", `The ${kind} ${name} is not the one of this version.`, run)];
  }
  const existing = new Set(columns.filter((row) => row.table_name === found.name).map((row) => row.name));
  return object.columns
    .filter((column) => !existing.has(column.name))
    .map((column) => problem("schema", `The column ${column.name} of ${name} is missing.`, column.add));
}

const squashed = (text: string): string => text.replace(/\s+/g, " ").trim().toLowerCase();

/** Whether a batch has this text, as a statement or within a text that it executes. Databases change the first word. */
function isText(text: string, batches: readonly string[]): boolean {
  const wanted = squashed(text).replace(/^(create( or (replace|alter))?|alter) /, "");
  return batches.some((batch) =>
    [batch, batch.replaceAll("''", "'")].some((form) => squashed(form).includes(wanted)),
  );
}
