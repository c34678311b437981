import { memoisePromise } from "../base/async.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import type { Outbox } from "../outbox/outbox.js";
import type { InboxKey, OutboxKey } from "../queue/message.js";
import type { Operators } from "../queue/operators.js";
import type { AnyKey, AnyQueue, QueueKind } from "../queue/work-store.js";
import { createQueueStore, type QueueParts, queueInternals } from "../sql/store.js";
import { controlOperations } from "./controls.js";
import { deadLetterOperations, type OperatedQueue } from "./dead-letters.js";
import { operatorDialects } from "./operator-dialects.js";
import { operatorReads } from "./operator-reads.js";

type Queue = Inbox | Outbox;

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
  return operatorsWith(partsOf(queue));
}

function partsOf(queue: Queue): QueueParts {
  const parts = (queue as { readonly [queueInternals]?: QueueParts } | undefined)?.[queueInternals];
  if (parts === undefined)
    throw new InvalidArgumentError("operatorsOf takes what createInbox or createOutbox returned.");
  return parts;
}

const made = new WeakMap<QueueParts, Operators<AnyKey>>();

function operatorsWith(parts: QueueParts): Operators<AnyKey> {
  const known = made.get(parts);
  if (known !== undefined) return known;
  const load = memoisePromise(() => loadStatements(parts));
  const call =
    (name: keyof Operators<never>) =>
    async (...given: readonly unknown[]) => {
      const calls = partOf[name](await load()) as Record<string, (...given: readonly unknown[]) => unknown>;
      return calls[name]!(...given);
    };
  const names = Object.keys(partOf) as (keyof Operators<never>)[];
  const operators = Object.fromEntries(names.map((name) => [name, call(name)]));
  made.set(parts, operators as unknown as Operators<AnyKey>);
  return operators as unknown as Operators<AnyKey>;
}

async function loadStatements(parts: QueueParts): Promise<OperatedQueue> {
  const { kind, db, options } = parts;
  const { changes, reads } = await operatorDialects[db.dialect.name]();
  const names = db.dialect.names(kind, options.schema, options.table);
  return { parts, statements: { ...changes(names), ...reads(names) } };
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
  unhandled: operatorReads,
  pause: controlOperations,
  resume: controlOperations,
  limit: controlOperations,
  controls: controlOperations,
};

/** The queues of one database, each together with what operators do with it. */
export type OperatedStores = Readonly<Record<QueueKind, AnyQueue>>;

/** A queue that is not used is not made. */
export function operatedStores(partsFor: (kind: QueueKind) => QueueParts): OperatedStores {
  const operated = (kind: QueueKind): AnyQueue => {
    const parts = partsFor(kind);
    return { ...createQueueStore(parts), ...operatorsWith(parts) };
  };
  let inbox: AnyQueue | undefined;
  let outbox: AnyQueue | undefined;
  return {
    get inbox() {
      inbox ??= operated("inbox");
      return inbox;
    },
    get outbox() {
      outbox ??= operated("outbox");
      return outbox;
    },
  };
}

export const withOperators = (stores: { readonly inbox: Inbox; readonly outbox: Outbox }): OperatedStores =>
  operatedStores((kind) => partsOf(stores[kind]));
