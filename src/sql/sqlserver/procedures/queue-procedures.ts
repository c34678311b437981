import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { recordAttempts } from "../attempts.js";
import { addMs, backoffSql, prepareBackoff } from "../expressions.js";
import { applyChanges, joinPartition, leavePartition } from "../partitions.js";
import { signatures } from "../signatures.js";
import { claim } from "./claim.js";
import { controlProcedures } from "./controls.js";
import { deadProcedures } from "./dead.js";
import { reap } from "./maintain.js";
import { atomically, owned, type Procedure, prepareLease, procedure, stateTable } from "./procedure.js";
import { purge, purgeDead } from "./purge.js";
import { attempts, due, get, list, oldestDue, resolve, stats } from "./queries.js";
import { abandon, settle } from "./settle.js";

export function queueProcedures(n: QueueNames): readonly Procedure[] {
  const s = stateTable(n);
  const make = (
    suffix: Exclude<
      keyof typeof signatures,
      "GetByKey" | "GetById" | "AttemptsByKey" | "AttemptsById" | "Replay" | "ReplayOrResend"
    >,
    body: string,
  ) => procedure(n, suffix, signatures[suffix], body);
  return [
    make("Claim", claim(n)),
    make(
      "Ack",
      settle(
        n,
        `status = ${status.done}, owner = null, locked_until = null, processed_at = @now, processed_by = @processed_by`,
        owned(s),
        leavePartition(n, "@changed", "c.keyed = 1"),
      ),
    ),
    make("Abandon", abandon(n)),
    make(
      "Fail",
      settle(
        n,
        `status = ${status.dead}, attempt = ${s}.attempt + 1, owner = null, locked_until = null, last_error = @error,
  error_group = @error_group, last_attempt_at = @now, died_at = @now`,
        owned(s),
        `${recordAttempts(n, "select c.seq, c.attempt, @now, @owner, @error\nfrom @changed c", "@changed")}

${leavePartition(n, "@changed", "@blocks = 0 and c.keyed = 1")}`,
      ),
    ),
    // It stays held, so the next claim takes it before the messages that have never been claimed. A dead message whose
    // expiry was told stays dead.
    make(
      "Release",
      settle(
        n,
        `owner = null, locked_until = null, visible_at = coalesce(${s}.due_since, @now)`,
        `${s}.owner = @owner`,
      ),
    ),
    make(
      "Renew",
      `${prepareLease(n)}
${prepareBackoff}
${settle(
  n,
  `locked_until = @lease_end,
  visible_at = ${addMs(n, "@lease_end", `\n    ${backoffSql(`(${s}.attempt + 1)`, `${s}.seq`)}`)}`,
  owned(s),
)}`,
    ),
    make("Reap", reap(n)),
    make("Purge", purge(n)),
    make("PurgeDead", purgeDead(n)),
    make("Resolve", resolve(n)),
    procedure(n, "Get", n.kind === "inbox" ? signatures.GetByKey : signatures.GetById, get(n)),
    procedure(
      n,
      "Attempts",
      n.kind === "inbox" ? signatures.AttemptsByKey : signatures.AttemptsById,
      attempts(n),
    ),
    make("List", list(n)),
    make("Stats", stats(n)),
    make("OldestDue", oldestDue(n)),
    make("Due", due(n)),
    procedure(
      n,
      "Replay",
      n.kind === "inbox" ? signatures.Replay : signatures.ReplayOrResend,
      settle(
        n,
        `status = case when ${s}.keyed = 1 then ${status.blocked} else ${status.ready} end,
  attempt = 0, crashes = 0, owner = null, locked_until = null, visible_at = @now,
  expires_at = ${addMs(n, "@now", "@ttl_ms")}, processed_at = null, processed_by = null, died_at = null`,
        n.kind === "inbox"
          ? `${s}.status = ${status.dead}`
          : `${s}.status = @status and @status in (${status.done}, ${status.dead})`,
        joinPartition(n, "@changed", "c.keyed = 1"),
      ),
    ),
    ...deadProcedures(n),
    ...controlProcedures(n),
    make("ApplyPartitionChanges", atomically(applyChanges(n))),
  ];
}
