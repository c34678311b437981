import {
  type InboxStatements,
  type OutboxStatements,
  type QueueStatementOptions,
  type QueueStatements,
  status,
} from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { callProcedure } from "./call-procedure.js";
import { applyControls } from "./controls.js";
import { enqueued, signatures } from "./signatures.js";

/** Each statement calls one procedure, so a database user needs only EXECUTE. The bodies are in procedures/. */
function queueStatements(n: QueueNames, { blockOnDead }: QueueStatementOptions): QueueStatements {
  const blocks = blockOnDead ? "1" : "0";
  const get = callProcedure(n, "get", "Get", n.kind === "inbox" ? signatures.GetByKey : signatures.GetById);
  return {
    claim: callProcedure(n, "claim", "Claim", signatures.Claim, { blocks }),
    applyControls: applyControls(n),
    ack: callProcedure(n, "ack", "Ack", signatures.Ack),
    abandon: callProcedure(n, "abandon", "Abandon", signatures.Abandon, { blocks }),
    fail: callProcedure(n, "fail", "Fail", signatures.Fail, { blocks }),
    release: callProcedure(n, "release", "Release", signatures.Release),
    renew: callProcedure(n, "renew", "Renew", signatures.Renew),
    reap: callProcedure(n, "reap", "Reap", signatures.Reap, { blocks }),
    purge: callProcedure(n, "purge", "Purge", signatures.Purge, { status: String(status.done) }),
    purgeDead: callProcedure(n, "purge dead", "Purge", signatures.Purge, {
      source: "null",
      status: String(status.dead),
    }),
    purgeOperations: callProcedure(n, "purge operations", "PurgeOperations", signatures.PurgeOperations),
    resolve: callProcedure(n, "resolve", "Resolve", signatures.Resolve),
    get,
    getCommitted: inTransaction(get),
    attempts: callProcedure(
      n,
      "attempts",
      "Attempts",
      n.kind === "inbox" ? signatures.AttemptsByKey : signatures.AttemptsById,
    ),
    list: callProcedure(n, "list", "List", signatures.List),
    stats: callProcedure(n, "stats", "Stats", signatures.Stats),
    oldestDue: callProcedure(n, "oldest_due", "OldestDue", signatures.OldestDue),
    replay: callProcedure(n, "replay", "Replay", signatures.Replay),
  };
}

export function inboxStatements(n: QueueNames, options: QueueStatementOptions): InboxStatements {
  return {
    ...queueStatements(n, options),
    alreadyProcessed: callProcedure(n, "already processed", "AlreadyProcessed", signatures.AlreadyProcessed),
  };
}

export function outboxStatements(n: QueueNames, options: QueueStatementOptions): OutboxStatements {
  return {
    ...queueStatements(n, options),
    enqueue: callProcedure(n, "enqueue", "Enqueue", enqueued.one),
    enqueueMany: callProcedure(n, "enqueue many", "Enqueue", enqueued.many),
    enqueueKeyed: callProcedure(n, "enqueue keyed", "Enqueue", enqueued.many),
    enqueueOnce: callProcedure(n, "enqueue once", "Enqueue", enqueued.many),
    expireDead: callProcedure(n, "expire dead", "ExpireDead", signatures.ExpireDead),
    listDone: callProcedure(n, "list done", "ListDone", signatures.ListDone),
    resend: callProcedure(n, "resend", "Resend", signatures.Resend),
    makeDue: callProcedure(n, "make due", "MakeDue", signatures.MakeDue),
  };
}

/** A procedure that only looks reads without locks, but not in a transaction: see `readFreely`. */
const inTransaction = ({ name, text }: SqlStatement): SqlStatement =>
  statement(
    `${name} committed`,
    `set nocount, xact_abort on;\nbegin transaction;\n${text};\ncommit transaction;`,
  );
