import { checkCall, plainCall } from "../queue/arguments.js";
import type { AnyKey, AnyMessage, QueueKind, WorkStore } from "../queue/work-store.js";
import {
  type Database,
  type InboxStatements,
  type OutboxStatements,
  originalOf,
  type QueueStatements,
} from "./dialect.js";
import type { SqlExecutor } from "./driver.js";
import { abandon, ack, claim, fail, release, renew, replay } from "./leases.js";
import { purgeDead, purgeDone, purgeOperations, reapExpired } from "./maintenance.js";
import { inboxShape, outboxShape, type QueueShape } from "./message-rows.js";
import { migrate } from "./migrate.js";
import { attempts, get, list, oldestDueAgeMs, stats } from "./reads.js";
import { type StatementRunner, statementRunner } from "./statement-runner.js";
import type { ResolvedStoreOptions } from "./store-options.js";

/** What every call of a queue works with. The keys, messages and states are those of its own kind. */
export interface QueueParts<Statements extends QueueStatements = QueueStatements> {
  readonly kind: QueueKind;
  readonly db: Database;
  readonly shape: QueueShape<AnyKey, AnyMessage, string>;
  readonly statements: Statements;
  readonly options: ResolvedStoreOptions<AnyKey>;
  readonly runner: StatementRunner;
}

interface StatementsOf {
  readonly inbox: InboxStatements;
  readonly outbox: OutboxStatements;
}

export function queueParts<Kind extends QueueKind>(
  db: Database,
  kind: Kind,
  given: ResolvedStoreOptions<never>,
): QueueParts<StatementsOf[Kind]> {
  const options = given as ResolvedStoreOptions<AnyKey>;
  const { schema, table, blockOnDead } = options;
  const shape: QueueShape<AnyKey, AnyMessage, string> = kind === "inbox" ? inboxShape : outboxShape;
  const runner = statementRunner(db, kind, options, () => {
    const other = kind === "inbox" ? { outbox: false as const } : { inbox: false as const };
    return migrate(db, { ...(schema === "" ? {} : { schema }), [kind]: table, ...other });
  });
  const statements = db.dialect[kind](db.dialect.names(kind, schema, table), { blockOnDead });
  return { kind, db, shape, options, runner, statements: statements as StatementsOf[Kind] };
}

/** Where a queue has its parts. What operators do is made of them, by `operatorsOf`, outside of the functions. */
export const queueInternals = Symbol("the parts of a queue");

/** A work queue on a database: the one implementation, for every dialect and for inbox and outbox alike. */
export function createQueueStore(
  parts: QueueParts,
): WorkStore<AnyKey, AnyMessage, string, SqlExecutor> & { readonly [queueInternals]: QueueParts } {
  const { db, options, runner } = parts;
  return {
    [queueInternals]: parts,
    id: options.id,
    queue: options.queue,
    topics: options.topics,
    database: () => originalOf(db),
    async init(call = {}) {
      checkCall(call, plainCall, "init");
      await runner.ready(call);
    },
    async transaction(work, call = {}) {
      checkCall(call, plainCall, "transaction");
      await runner.ready(call);
      return db.driver.transaction(work, { signal: call.signal });
    },
    claim: (call) => claim(parts, call),
    ack: (owner, messages, call) => ack(parts, owner, messages, call),
    abandon: (owner, messages, call) => abandon(parts, owner, messages, call),
    fail: (owner, messages, error, call) => fail(parts, owner, messages, error, call),
    release: (owner, messages, call) => release(parts, owner, messages, call),
    renew: (owner, messages, leaseMs, call) => renew(parts, owner, messages, leaseMs, call),
    reapExpired: (call) => reapExpired(parts, call),
    purgeDone: (call) => purgeDone(parts, call),
    purgeDead: (call) => purgeDead(parts, call),
    purgeOperations: (call) => purgeOperations(parts, call),
    get: (key, call) => get(parts, key, call),
    attempts: (key, call) => attempts(parts, key, call),
    list: (filter) => list(parts, filter),
    stats: (call) => stats(parts, call),
    oldestDueAgeMs: (call) => oldestDueAgeMs(parts, call),
    async recordUnhandled(topics, call = {}) {
      checkCall(call, plainCall, "recordUnhandled");
      if (topics.length === 0) return;
      await runner.execute(parts.statements.recordUnhandled, { items: JSON.stringify(topics) }, call);
    },
    replay: (messages, call) => replay(parts, messages, call),
  };
}
