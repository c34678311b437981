import type { QueueMessage } from "../queue/message.js";
import type { WorkStore } from "../queue/work-store.js";
import { type AnnounceDead, announceDeadTo } from "./announce-dead.js";
import type { SqlExecutor } from "./driver.js";
import { migrate } from "./migrate.js";
import { type QueueOperations, type QueueStoreParts, queueOperations } from "./queue-operations.js";
import { type StatementRunner, statementRunner } from "./statement-runner.js";

/** What inbox and outbox need beside the shared operations. */
export interface StoreKernel<Key> extends Pick<StatementRunner, "executeIn" | "atomically"> {
  readonly announceDead: AnnounceDead<Key>;
}

/**
 * A work queue on a database. Its operations are made when the first of them is called: a function that only receives
 * has none of them to compile when it starts.
 */
export function createQueueStore<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  parts: QueueStoreParts<Key, Message, State>,
): WorkStore<Key, Message, State, SqlExecutor> & { readonly kernel: StoreKernel<Key> } {
  const { db, kind, shape, options } = parts;
  const runner = statementRunner(db, kind, options, () => {
    const other = kind === "inbox" ? { outbox: false as const } : { inbox: false as const };
    const schema = options.schema === "" ? {} : { schema: options.schema };
    return migrate(db, { ...schema, [kind]: options.table, ...other });
  });
  const announceDead = announceDeadTo(options, shape);
  let made: QueueOperations<Key, Message, State> | undefined;
  const all = (): QueueOperations<Key, Message, State> => {
    made ??= queueOperations(parts, runner, announceDead);
    return made;
  };
  return {
    id: options.id,
    kernel: { ...runner, announceDead },
    init: (call) => all().init(call),
    claim: (claim) => all().claim(claim),
    ack: (owner, messages, call) => all().ack(owner, messages, call),
    abandon: (owner, messages, call) => all().abandon(owner, messages, call),
    fail: (owner, messages, error, call) => all().fail(owner, messages, error, call),
    release: (owner, messages, call) => all().release(owner, messages, call),
    renew: (owner, messages, leaseMs, call) => all().renew(owner, messages, leaseMs, call),
    transaction: (work, call) => all().transaction(work, call),
    reapExpired: (reap) => all().reapExpired(reap),
    purgeDone: (purge) => all().purgeDone(purge),
    get: (key, call) => all().get(key, call),
    list: (filter) => all().list(filter),
    stats: (call) => all().stats(call),
    oldestDueAgeMs: (call) => all().oldestDueAgeMs(call),
    replay: (messages, call) => all().replay(messages, call),
  };
}
