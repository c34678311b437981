import type {
  InboxStatementOptions,
  InboxStatements,
  OutboxStatements,
  QueueStatementOptions,
  QueueStatements,
} from "../dialect.js";
import { type SqlStatement, statement } from "../driver.js";
import type { QueueNames } from "../names.js";
import { type ParameterName, signatures } from "./signatures.js";

/** Calls a procedure with the parameters of the same names; `given` says otherwise for some. */
function call(
  n: QueueNames,
  name: string,
  procedure: string,
  parameters: readonly ParameterName[],
  given: Partial<Record<ParameterName, string>> = {},
): SqlStatement {
  const list = parameters
    .map((parameter) => `@${parameter} = ${given[parameter] ?? `@${parameter}`}`)
    .join(", ");
  return statement(name, `exec ${n.object(`_${procedure}`)} ${list}`);
}

/** An absent hash comes as a null of type nvarchar, which becomes no varbinary unless it is converted. */
const withHash = (called: SqlStatement): SqlStatement =>
  statement(
    called.name,
    `declare @bytes varbinary(max) = convert(varbinary(max), @hash);
${called.steps[0]}`,
  );

/** One procedure each, so that a database user needs no right but EXECUTE. Their bodies are in procedures/. */
function queueStatements(n: QueueNames, { deadBlocks }: QueueStatementOptions): QueueStatements {
  const blocks = deadBlocks ? "1" : "0";
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

export function inboxStatements(n: QueueNames, options: InboxStatementOptions): InboxStatements {
  const revive = options.reviveDead ? "1" : "0";
  const hash = "@bytes";
  const blocks = options.deadBlocks ? "1" : "0";
  return {
    ...queueStatements(n, options),
    receive: withHash(call(n, "receive", "Receive", signatures.Receive, { hash, revive })),
    receiveMany: call(n, "receive many", "ReceiveMany", signatures.ReceiveMany, { revive }),
    receiveKeyed: call(n, "receive keyed", "ReceiveKeyed", signatures.ReceiveKeyed, { revive }),
    alreadyProcessed: withHash(
      call(n, "already processed", "AlreadyProcessed", signatures.AlreadyProcessed, { hash }),
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
