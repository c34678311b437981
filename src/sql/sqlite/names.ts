import { type QueueNames, queueNames } from "../names.js";

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** SQLite has no schemas within a file: a schema's name becomes part of the table's. */
export const inSchema = (schema: string, name: string) => quote(schema === "" ? name : `${schema}.${name}`);

export function names(kind: QueueNames["kind"], schema: string, table: string): QueueNames {
  const object = (suffix: string) => inSchema(schema, `${table}${suffix}`);
  return queueNames({ kind, schema, table }, { object, bare: object }, { state: "State", view: "Messages" });
}

/**
 * One row with the number of a message. Every message up to it has a state row, so a claim looks for unclaimed messages
 * (those without a state row) only after it. See docs/decisions/0009.
 */
export const cursorTable = (n: QueueNames) => n.object("Cursor");

/**
 * The messages with a partition key that are not finished. Only the head of a partition queue is ready or held, so a
 * claim need not read this table. See docs/decisions/0010.
 */
export const partitionQueue = (n: QueueNames) => n.object("PartitionQueue");

/** The failed attempts of messages. An ack writes nothing here. */
export const attemptsTable = (n: QueueNames) => n.object("Attempts");

/** Pauses and limits; empty nearly always. */
export const controlsTable = (n: QueueNames) => n.object("Controls");
