import type {
  InboxStatements,
  OutboxStatements,
  QueueStatementOptions,
  QueueStatements,
} from "../dialect.js";
import type { QueueNames } from "../names.js";
import { call, withHash } from "./call-procedure.js";
import { signatures } from "./signatures.js";

/** One procedure each, so that a database user needs no right but EXECUTE. Their bodies are in procedures/. */
function queueStatements(n: QueueNames, { blockOnDead }: QueueStatementOptions): QueueStatements {
  const blocks = blockOnDead ? "1" : "0";
  return {
    claim: call(n, "claim", "Claim", signatures.Claim, { blocks }),
    ack: call(n, "ack", "Ack", signatures.Ack),
    abandon: call(n, "abandon", "Abandon", signatures.Abandon, { blocks }),
    fail: call(n, "fail", "Fail", signatures.Fail, { blocks }),
    release: call(n, "release", "Release", signatures.Release),
    renew: call(n, "renew", "Renew", signatures.Renew),
    reap: call(n, "reap", "Reap", signatures.Reap, { blocks }),
    purge: call(n, "purge", "Purge", signatures.Purge),
    resolve: call(n, "resolve", "Resolve", signatures.Resolve),
    get: call(n, "get", "Get", n.kind === "inbox" ? signatures.GetByKey : signatures.GetById),
    list: call(n, "list", "List", signatures.List),
    stats: call(n, "stats", "Stats", signatures.Stats),
    oldestDue: call(n, "oldest_due", "OldestDue", signatures.OldestDue),
    replay: call(n, "replay", "Replay", signatures.Replay),
  };
}

export function inboxStatements(n: QueueNames, options: QueueStatementOptions): InboxStatements {
  const blocks = options.blockOnDead ? "1" : "0";
  return {
    ...queueStatements(n, options),
    alreadyProcessed: withHash(
      call(n, "already processed", "AlreadyProcessed", signatures.AlreadyProcessed, { hash: "@bytes" }),
    ),
    mark: call(n, "mark", "Mark", signatures.Mark, { blocks }),
  };
}

export function outboxStatements(n: QueueNames, options: QueueStatementOptions): OutboxStatements {
  return {
    ...queueStatements(n, options),
    enqueue: call(n, "enqueue", "Enqueue", signatures.Enqueue),
    enqueueMany: call(n, "enqueue many", "EnqueueMany", signatures.EnqueueMany),
    enqueueKeyed: call(n, "enqueue keyed", "EnqueueKeyed", signatures.EnqueueKeyed),
  };
}
