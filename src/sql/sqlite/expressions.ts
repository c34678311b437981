import { status } from "../dialect.js";
import type { QueueNames } from "../names.js";
import { databaseClock } from "./client.js";
import { cursorTable } from "./names.js";

/** Milliseconds: the client binds the database's clock, unless a test passes a time. */
export const now = ":now";
/** The same where the statement is one message's whole cost and asking the clock first would be a tenth of it. */
export const nowWithin = `coalesce(:given_now, ${databaseClock})`;

/**
 * The next message's number: never one that was used before, as `autoincrement` would promise too, but by writing
 * a page more for every message.
 */
export const nextSeq = (n: QueueNames) =>
  `(select max(last_deleted, coalesce((select max(seq) from ${n.message}), 0)) + 1 from ${cursorTable(n)})`;

/** Seen, or Processing by hand only: nobody would ever claim it as it is. */
export const unclaimable = `(status = ${status.seen} or (status = ${status.held} and locked_until is null and crashes = 0))`;

/** Of a message that a delivery found; none when it is fresh. */
export const oldStatus = (n: QueueNames) =>
  `(select s.status from ${n.state} s where s.seq = ${n.message}.seq)`;

/** Of a batch; read before it, because an insert that reads its own table keeps all its rows aside first. */
export const firstSeq = (n: QueueNames) => `select ${nextSeq(n)} as first_seq, ${nowWithin} as now`;

/** Of an object in a JSON array of messages. */
export const field = (name: string) => `json_extract(i.value, '$.${name}')`;
