import { keptAttempts } from "../defaults.js";
import { literal } from "../literal.js";
import type { QueueNames } from "../names.js";
import { reasons } from "../reasons.js";
import { now, stepSeqs } from "./expressions.js";
import { attemptsTable } from "./names.js";

/**
 * The table, the trigger that keeps it short, and the trigger that records an attempt whose lease was lost. The latter costs
 * a claim nothing where no lease was lost: a first claim inserts the state, and an ack does not change the count of crashes.
 */
export const createAttempts = (n: QueueNames): readonly string[] => [
  `create table ${attemptsTable(n)} (
  number integer primary key,
  seq integer not null,
  attempt integer not null,
  ended_at integer not null,
  worker text,
  error text
) strict`,
  `create index ${n.bare("AttemptsOfMessage")} on ${attemptsTable(n)} (seq)`,
  `create trigger ${n.object("ForgetAttempts")}
after insert on ${attemptsTable(n)}
begin
  delete from ${attemptsTable(n)}
  where seq = new.seq and number <= (
    select number from ${attemptsTable(n)} where seq = new.seq order by number desc limit 1 offset ${keptAttempts}
  );
end`,
  `create trigger ${n.object("RecordLostAttempt")}
after update of crashes on ${n.state}
when new.crashes > old.crashes and old.locked_until is not null
begin
  insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
  values (new.seq, new.attempt, old.locked_until, old.owner, ${literal(reasons.leaseExpired)});
end`,
];

/**
 * A step: records the attempts of the messages in `:items` that the step before has changed. In this order, or SQLite reads
 * all of `:items` for each message.
 */
export const recordAbandoned = (
  n: QueueNames,
): string => `insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
select s.seq, s.attempt, ${now}, :owner, json_extract(i.value, '$.error')
from json_each(:items) i
cross join ${n.state} s on s.seq = json_extract(i.value, '$.seq')
where json_extract(i.value, '$.attempts') is null and s.seq in ${stepSeqs}
order by s.seq`;

/** A step: the same for messages that failed with one error. */
export const recordFailed = (
  n: QueueNames,
): string => `insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
select s.seq, s.attempt, ${now}, :owner, :error
from ${n.state} s
where s.seq in ${stepSeqs}`;
