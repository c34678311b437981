import { keptAttempts } from "../defaults.js";
import type { QueueNames } from "../names.js";
import { attemptsTable } from "./names.js";
import { create } from "./routine.js";

export const attemptRows = (n: QueueNames): string => `create table ${attemptsTable(n)} (
  seq bigint not null,
  number bigint generated always as identity,
  attempt integer not null,
  ended_at timestamptz not null,
  worker uuid,
  error text,
  primary key (seq, number)
)`;

/**
 * Called inside a condition for its side effect. Always false, so that the condition's value is fixed. Strict: it does not
 * run for null, so a claim that finds no lost lease writes nothing.
 */
export const recordAttemptsFunction = (n: QueueNames): string =>
  create(
    n.object("_record_attempts"),
    "json",
    "(p_attempts json) returns boolean",
    `declare
  v_seqs bigint[];
begin
  with added as (
    insert into ${attemptsTable(n)} (seq, attempt, ended_at, worker, error)
    select i.seq, i.attempt, i.ended_at, i.worker, i.error
    from json_to_recordset(p_attempts) as i(seq bigint, attempt integer, ended_at timestamptz, worker uuid, error text)
    returning seq
  )
  select array_agg(added.seq) into v_seqs from added;

  delete from ${attemptsTable(n)} a
  where a.seq = any (v_seqs) and a.number <= (
      select b.number from ${attemptsTable(n)} b where b.seq = a.seq order by b.number desc offset ${keptAttempts} limit 1
    );
  return false;
end`,
    "strict\nset enable_seqscan = off",
  );

/** The columns of an attempt, as expressions on the rows of a CTE. */
interface AttemptColumns {
  readonly attempt: string;
  readonly endedAt: string;
  readonly worker: string;
  readonly error: string;
}

/** A condition that is always true. It records an attempt for each row `failed` of a CTE that matches `which`. */
export const recordAttempts = (
  n: QueueNames,
  cte: string,
  { attempt, endedAt, worker, error }: AttemptColumns,
  which = "true",
): string => `(
  select ${n.object("_record_attempts")}(json_agg(json_build_object(
    'seq', failed.seq, 'attempt', ${attempt}, 'ended_at', ${endedAt}, 'worker', ${worker}, 'error', ${error}
  )))
  from ${cte} failed
  where ${which}
) is not true`;
