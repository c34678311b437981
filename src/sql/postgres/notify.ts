import { createHash } from "node:crypto";
import type { Database, NotifyQueue } from "../dialect.js";
import { status } from "../dialect.js";
import { statement } from "../driver.js";
import { literal } from "../literal.js";
import { type QueueNames, requireIdentifier } from "../names.js";
import { postgresDialect } from "./dialect.js";

export function namesOf({ kind, schema, table }: NotifyQueue): QueueNames {
  const { defaults, names } = postgresDialect;
  const chosen = { schema: schema ?? defaults.schema, table: table ?? defaults[kind] };
  requireIdentifier(chosen.schema, "schema");
  requireIdentifier(chosen.table, "table");
  return names(kind, chosen.schema, chosen.table);
}

/** A digest: a channel's name has at most 63 bytes, and schema and table together may have more. */
export function channelOf({ schema, table }: QueueNames): string {
  const digest = createHash("sha256")
    .update(JSON.stringify([schema, table]))
    .digest("hex");
  return `oncebox_${digest.slice(0, 16)}`;
}

/**
 * From now on every commit that makes a message claimable notifies the listening workers (`wakeUpOnNotify`), also when
 * other code wrote the message. Run it once, where you run `migrate`; it may be repeated.
 *
 * PostgreSQL lets only one notifying transaction commit at a time, in the whole server. That slows commits from about a
 * thousand a second on. With so many messages no wake-up is needed, because the workers never sleep.
 *
 * @example
 * await enableNotify(db, { kind: "outbox" });
 */
export async function enableNotify(db: Database, queue: NotifyQueue): Promise<void> {
  const n = namesOf(queue);
  // Only for claimable messages: a duplicate changes nothing, and a message that is only Seen is never claimed.
  await run(db, n, [
    `create or replace function ${n.object("_notify")}() returns trigger
language plpgsql
as $notify$
begin
  if exists (select from added where status = ${status.ready}) then
    perform pg_notify(${literal(channelOf(n))}, '');
  end if;
  return null;
end
$notify$`,
    `drop trigger if exists ${n.bare("_notify")} on ${n.state}`,
    `create trigger ${n.bare("_notify")}
after insert on ${n.state}
referencing new table as added
for each statement
execute function ${n.object("_notify")}()`,
    // For messages that become claimable later: a new head of a partition queue, a replayed dead letter, a message that
    // was only Seen. A claim does not change the status, so it does not call the trigger.
    `create or replace function ${n.object("_notify_ready")}() returns trigger
language plpgsql
as $notify$
begin
  perform pg_notify(${literal(channelOf(n))}, '');
  return null;
end
$notify$`,
    `drop trigger if exists ${n.bare("_notify_ready")} on ${n.state}`,
    `create trigger ${n.bare("_notify_ready")}
after update of status on ${n.state}
for each row
when (new.status = ${status.ready} and old.status <> ${status.ready})
execute function ${n.object("_notify_ready")}()`,
  ]);
}

/** Removes the triggers again. */
export async function disableNotify(db: Database, queue: NotifyQueue): Promise<void> {
  const n = namesOf(queue);
  await run(db, n, [
    `drop trigger if exists ${n.bare("_notify")} on ${n.state}`,
    `drop trigger if exists ${n.bare("_notify_ready")} on ${n.state}`,
    `drop function if exists ${n.object("_notify")}()`,
    `drop function if exists ${n.object("_notify_ready")}()`,
  ]);
}

const run = (db: Database, { schema }: QueueNames, texts: readonly string[]): Promise<void> =>
  db.exclusively(schema, async (tx) => {
    for (const text of texts) await tx.query({ ...statement("notify", text), unprepared: true }, {});
  });
