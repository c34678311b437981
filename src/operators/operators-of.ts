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
    (name: keyof Operators<never>) =>
    async (...given: readonly unknown[]) => {
      const calls = partOf[name](await load()) as Record<string, (...given: readonly unknown[]) => unknown>;
      return calls[name]!(...given);
    };
  const names = Object.keys(partOf) as (keyof Operators<never>)[];
  const operators = Object.fromEntries(names.map((name) => [name, call(name)]));
  made.set(queue, operators);
  return operators;
}

async function loadOperators(queue: Queue, parts: Parts) {
  const { kind, db, options, runner } = parts;
  const { changes, reads } = await operatorDialects[db.dialect.name]();
  const names = db.dialect.names(kind, options.schema, options.table);
  const statements = { ...changes(names), ...reads(names) };
  const records = operationRecords(db.dialect, statements, runner);
  return { queue, parts, statements, records };
}

type Loaded = Awaited<ReturnType<typeof loadOperators>>;

const dead = ({ parts, statements }: Loaded) => deadOperations(parts, statements);
const byKeys = ({ parts, statements, records }: Loaded) => changeByKeys(parts, statements, records);
const edit = ({ queue, parts, statements, records }: Loaded) =>
  editOperation(parts, statements, records, enqueueEdited(queue));
const bulk = ({ parts, statements, records }: Loaded) => operatorOperations(parts, statements, records);
const activity = ({ parts, statements }: Loaded) => activityOperation(parts, statements);
const reads = ({ parts, statements }: Loaded) => operatorReadOperations(parts, statements);
const control = ({ parts, statements, records }: Loaded) => controlOperations(parts, statements, records);

/** What makes each call. */
const partOf: {
  readonly [Name in keyof Operators<AnyKey>]: (loaded: Loaded) => Pick<Operators<AnyKey>, Name>;
} = {
  deadGroups: dead,
  countDead: dead,
  replay: byKeys,
  discard: byKeys,
  archive: byKeys,
  editAndReplay: edit,
  startOperation: bulk,
  continueOperation: bulk,
  operation: bulk,
  operations: bulk,
  activity,
  blockedPartitions: reads,
  byCorrelation: reads,
  pause: control,
  resume: control,
  limit: control,
  controls: control,
};

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

/** The queues of one database, each together with what operators do with it. A queue that is not used is not made. */
export function withOperators(stores: { readonly inbox: Inbox; readonly outbox: Outbox }): OperatedStores {
  let inbox: OperatedStores["inbox"] | undefined;
  let outbox: OperatedStores["outbox"] | undefined;
  return {
    get inbox() {
      inbox ??= { ...stores.inbox, ...operatorsOf(stores.inbox) };
      return inbox;
    },
    get outbox() {
      outbox ??= { ...stores.outbox, ...operatorsOf(stores.outbox) };
      return outbox;
    },
  };
}
