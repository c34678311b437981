import { memoisePromise } from "../base/concurrency.js";
import { uuidV7 } from "../base/uuid.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import type { Outbox } from "../outbox/outbox.js";
import type { InboxKey, InboxMessage, OutboxKey, OutboxMessage } from "../queue/message.js";
import type { Operators } from "../queue/operators.js";
import type { AnyKey, AnyMessage } from "../queue/work-store.js";
import { partsKey, type QueueParts } from "../sql/store.js";
import { controlOperations } from "./controls.js";
import { changeByKeys, deadOperations, type EnqueueEdited, editOperation } from "./dead-letters.js";
import { operationRecords, operatorOperations } from "./operations.js";
import { operatorDialects } from "./operator-dialects.js";
import { activityOperation, operatorReadOperations } from "./operator-reads.js";

type Queue = Inbox | Outbox;
type Parts = QueueParts<AnyKey, AnyMessage, string>;

const callNames: Readonly<Record<keyof Operators<never>, true>> = {
  deadGroups: true,
  countDead: true,
  replay: true,
  discard: true,
  archive: true,
  editAndReplay: true,
  startOperation: true,
  continueOperation: true,
  operation: true,
  operations: true,
  activity: true,
  blockedPartitions: true,
  byCorrelation: true,
  pause: true,
  resume: true,
  limit: true,
  controls: true,
};

const made = new WeakMap<Queue, unknown>();

/**
 * What operators do with an inbox or an outbox: dead letters, operations, pauses and limits, activity. The functions do not load
 * it, and its statements are loaded at the first call.
 *
 * @example
 * const operators = operatorsOf(outbox);
 * await operators.pause({ topic: "mail.welcome" }, { by: "alice" });
 */
export function operatorsOf(queue: Inbox): Operators<InboxKey>;
export function operatorsOf(queue: Outbox): Operators<OutboxKey>;
export function operatorsOf(queue: Queue): Operators<AnyKey>;
export function operatorsOf(queue: Queue): unknown {
  const known = made.get(queue);
  if (known !== undefined) return known;
  const parts = (queue as unknown as { readonly [partsKey]?: Parts } | undefined)?.[partsKey];
  if (parts === undefined)
    throw new InvalidArgumentError("operatorsOf takes what createInbox or createOutbox returned.");
  const load = memoisePromise(() => loadOperators(queue, parts));
  const call =
    (name: string) =>
    async (...given: readonly unknown[]) =>
      ((await load()) as unknown as Record<string, (...given: readonly unknown[]) => unknown>)[name]!(
        ...given,
      );
  const operators = Object.fromEntries(Object.keys(callNames).map((name) => [name, call(name)]));
  made.set(queue, operators);
  return operators;
}

async function loadOperators(queue: Queue, parts: Parts): Promise<Operators<AnyKey>> {
  const { kind, db, options, runner } = parts;
  const { changes, reads } = await operatorDialects[db.dialect.name]();
  const names = db.dialect.names(kind, options.schema, options.table);
  const statements = { ...changes(names), ...reads(names) };
  const records = operationRecords(db.dialect, statements, runner);
  return {
    ...deadOperations(parts, statements),
    ...changeByKeys(parts, statements, records),
    ...editOperation(parts, statements, records, enqueueEdited(queue)),
    ...operatorOperations(parts, statements, records),
    ...activityOperation(parts, statements),
    ...operatorReadOperations(parts, statements),
    ...controlOperations(parts, statements, records),
  };
}

const enqueueEdited = (queue: Queue): EnqueueEdited<AnyKey, AnyMessage> =>
  "receive" in queue
    ? async (old, content, call) => {
        const key = { source: (old as InboxMessage).source, messageId: uuidV7() };
        await queue.receive({ ...content, ...key }, call);
        return key;
      }
    : async (old, content, call) => {
        // It takes the archived message's natural key over. In another topic it could be another message's.
        const isSameTopic = content.topic === old.topic;
        const naturalKey = isSameTopic ? (old as OutboxMessage).naturalKey : null;
        return { id: await queue.enqueue({ ...content, naturalKey }, call) };
      };

export interface OperatedStores {
  readonly inbox: Omit<Inbox, "replay"> & Operators<InboxKey>;
  readonly outbox: Omit<Outbox, "replay"> & Operators<OutboxKey>;
}

/** The queues of one database, each together with what operators do with it. */
export const withOperators = ({
  inbox,
  outbox,
}: {
  readonly inbox: Inbox;
  readonly outbox: Outbox;
}): OperatedStores => ({
  inbox: { ...inbox, ...operatorsOf(inbox) },
  outbox: { ...outbox, ...operatorsOf(outbox) },
});
