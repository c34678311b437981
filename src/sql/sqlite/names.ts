import { type QueueNames, queueNames } from "../names.js";

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** SQLite has no schemas within a file: a schema's name becomes part of the table's. */
export const inSchema = (schema: string, name: string) => quote(schema === "" ? name : `${schema}.${name}`);

export function names(kind: QueueNames["kind"], schema: string, table: string): QueueNames {
  const object = (suffix: string) => inSchema(schema, `${table}${suffix}`);
  return queueNames({ kind, schema, table }, { object, bare: object }, { state: "State", view: "Messages" });
}

/**
 * A message without a state row is fresh: due since its birth and never claimed. Every one up to the cursor has
 * a state row or is in a lease, so a claim looks for fresh ones behind it only. See docs/decisions/0009.
 */
export const cursorTable = (n: QueueNames) => n.object("Cursor");

/**
 * A claim of fresh messages alone, packed: one row with their numbers instead of a held state row for each. Settled as
 * a whole, they go from fresh to done; whatever else becomes of one of them unpacks it first. See docs/decisions/0012.
 */
export const leaseTable = (n: QueueNames) => n.object("Leases");

/**
 * Messages with a partition key, in the order of their turns. Only the head of a line is ready or held, so claims need
 * not know of lines; whoever finishes it takes it out, and the next one is ready. See docs/decisions/0010.
 */
export const lineTable = (n: QueueNames) => n.object("Line");
