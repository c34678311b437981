import { status } from "../../dialect.js";
import type { QueueNames } from "../../names.js";
import { addMs, backoffSql, prepareBackoff } from "../expressions.js";
import { applyChanges, leavePartition } from "../partitions.js";
import { signatures } from "../signatures.js";
import { claim } from "./claim.js";
import { controlProcedures } from "./controls.js";
import { deadProcedures } from "./dead.js";
import { reap } from "./maintain.js";
import { atomically, owned, type Procedure, prepareLease, procedure, stateTable } from "./procedure.js";
import { purge } from "./purge.js";
import { attempts, due, get, list, oldestDue, resolve, stats } from "./queries.js";
import { abandon, fail, replay, settle } from "./settle.js";

export function queueProcedures(n: QueueNames): readonly Procedure[] {
  const s = stateTable(n);
  const make = (
    suffix: Exclude<keyof typeof signatures, "GetByKey" | "GetById" | "AttemptsByKey" | "AttemptsById">,
    body: string,
  ) => procedure(n, suffix, signatures[suffix], body);
  return [
    // before those that call it: the server warns of a procedure that is not there
    make("ApplyPartitionChanges", atomically(applyChanges(n))),
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
    make("Fail", fail(n)),
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
    make("Replay", replay(n, status.dead)),
    ...deadProcedures(n),
    ...controlProcedures(n),
  ];
}
