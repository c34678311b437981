import { type QueueNames, queueNames } from "../names.js";

export const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;

export function names(kind: QueueNames["kind"], schema: string, table: string): QueueNames {
  const bare = (suffix: string) => quote(`${table}${suffix}`);
  const object = (suffix: string) => `${quote(schema)}.${bare(suffix)}`;
  return queueNames({ kind, schema, table }, { object, bare }, { state: "_state", view: "_messages" });
}

/** Done messages: appended by the ack, never changed. A message without a state row is done. */
export const doneTable = (n: QueueNames): string => n.object("_done");

/** The failed attempts of messages. An ack writes nothing here. */
export const attemptsTable = (n: QueueNames): string => n.object("_attempts");

/** Pauses and limits; empty nearly always. */
export const controlsTable = (n: QueueNames): string => n.object("_controls");
