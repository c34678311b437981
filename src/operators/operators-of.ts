import { memoisePromise } from "../base/concurrency.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import type { Outbox } from "../outbox/outbox.js";
import type { InboxKey, OutboxKey } from "../queue/message.js";
import type { Operators } from "../queue/operators.js";
import type { AnyKey } from "../queue/work-store.js";
import { partsKey } from "../sql/store.js";
import { controlOperations } from "./controls.js";
import { deadLetterOperations, type OperatedQueue } from "./operations.js";
import { operatorDialects } from "./operator-dialects.js";
import { operatorReads } from "./operator-reads.js";

type Queue = Inbox | Outbox;

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
  const parts = (queue as { readonly [partsKey]?: unknown } | undefined)?.[partsKey];
  if (parts === undefined)
    throw new InvalidArgumentError("operatorsOf takes what createInbox or createOutbox returned.");
  const load = memoisePromise(() => loadStatements(queue, parts as OperatedQueue["parts"]));
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

async function loadStatements(queue: Queue, parts: OperatedQueue["parts"]): Promise<OperatedQueue> {
  const { kind, db, options } = parts;
  const { changes, reads } = await operatorDialects[db.dialect.name]();
  const names = db.dialect.names(kind, options.schema, options.table);
  return { queue, parts, statements: { ...changes(names), ...reads(names) } };
}

/** The function that makes each call. */
const partOf: {
  readonly [Name in keyof Operators<AnyKey>]: (queue: OperatedQueue) => Pick<Operators<AnyKey>, Name>;
} = {
  deadGroups: operatorReads,
  countDead: operatorReads,
  replay: deadLetterOperations,
  discard: deadLetterOperations,
  archive: deadLetterOperations,
  editAndReplay: deadLetterOperations,
  startOperation: deadLetterOperations,
  continueOperation: deadLetterOperations,
  operation: deadLetterOperations,
  operations: deadLetterOperations,
  activity: operatorReads,
  blockedPartitions: operatorReads,
  byCorrelation: operatorReads,
  pause: controlOperations,
  resume: controlOperations,
  limit: controlOperations,
  controls: controlOperations,
};

export interface OperatedStores {
  readonly inbox: Omit<Inbox, "replay"> & Operators<InboxKey>;
  readonly outbox: Omit<Outbox, "replay"> & Operators<OutboxKey>;
}

/** The queues of one database, each together with what operators do with it. A queue that is not used is not made. */
export const withOperators = (stores: {
  readonly inbox: Inbox;
  readonly outbox: Outbox;
}): OperatedStores => ({
  get inbox() {
    return { ...stores.inbox, ...operatorsOf(stores.inbox) };
  },
  get outbox() {
    return { ...stores.outbox, ...operatorsOf(stores.outbox) };
  },
});
