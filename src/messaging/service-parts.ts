import { abortAfter } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { InvalidOperationError } from "../errors.js";
import { createInbox, type Inbox } from "../inbox/inbox.js";
import {
  type BeginTransaction,
  commitIfHandled,
  requireScope,
  transaction,
} from "../middleware/transaction.js";
import { createOutbox, type Outbox } from "../outbox/outbox.js";
import type { CommitNotifications, Database, NotifyQueue } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { ServiceDestination } from "./destinations.js";
import { combinedMessages, type MessageDefinition } from "./messages.js";
import { type DeadMessages, otherWarnings, type Reports, serviceReports } from "./reports.js";
import {
  type AnyServiceOptions,
  policyOf,
  type SeparateDatabases,
  type Settings,
  settingsOf,
} from "./service-options.js";

/** What the parts of a service share. */
export interface ServiceParts {
  readonly options: AnyServiceOptions;
  readonly settings: Settings;
  readonly serviceId: string;
  readonly messages: ReadonlyMap<string, MessageDefinition>;
  readonly destinations: ReadonlyMap<string, ServiceDestination>;
  readonly outboxDb: Database;
  readonly inboxDb: Database;
  /** The name of the outbox. */
  readonly outboxQueue: NotifyQueue & { readonly table: string };
  /** How commits of other processes wake the worker, where they do. */
  readonly notifications: CommitNotifications | undefined;
  readonly outbox: Outbox;
  /** The outboxes of the instances that send to this service's other destinations. */
  readonly otherOutboxes: readonly Outbox[];
  readonly inbox: Inbox;
  readonly reports: Reports;
  readonly now: () => Date;
  /** The transactions in which a message was enqueued. When one of them commits, the worker is woken. */
  readonly sentIn: WeakSet<SqlExecutor>;
  /** The calls of `onDead`. */
  readonly dead: DeadMessages;
  /** Makes the worker poll. Does nothing while none runs. */
  readonly wake: () => void;
}

export function serviceParts(
  options: AnyServiceOptions,
  { destinations, dead, wake }: Pick<ServiceParts, "destinations" | "wake" | "dead">,
): ServiceParts {
  const { serviceId, db, schema, clock, logger, metrics, tracing, wakeUp } = options;
  const { notify = wakeUp === undefined } = options;
  const settings = settingsOf(options);
  const {
    outbox: outboxDb,
    inbox: inboxDb,
    otherOutboxes = [],
  }: SeparateDatabases = "driver" in db ? { outbox: db, inbox: db } : db;
  const reports = serviceReports(serviceId, omitUndefined({ logger, metrics, clock }));
  const store = omitUndefined({ schema, clock, logger: otherWarnings(reports.logger), metrics, tracing });
  const table = `${settings.table}_outbox`;
  return {
    options,
    settings,
    serviceId,
    messages: combinedMessages(options.messages),
    destinations,
    outboxDb,
    inboxDb,
    outboxQueue: { kind: "outbox", table, ...omitUndefined({ schema }) },
    notifications: notify ? outboxDb.notifications : undefined,
    outbox: createOutbox(outboxDb, {
      ...store,
      table,
      retry: policyOf(settings.retry),
      onDead: dead.listener,
    }),
    otherOutboxes: otherOutboxes.map((other) => createOutbox(other, { ...store, table })),
    inbox: createInbox(inboxDb, { ...store, table: `${settings.table}_inbox` }),
    reports,
    now: clock ?? (() => new Date()),
    sentIn: new WeakSet(),
    dead,
    wake,
  };
}

/** What a handler of a message gets from the service. */
export interface Handling {
  readonly tx: SqlExecutor;
  readonly signal: AbortSignal;
}

/**
 * Runs a handler in a transaction on the inbox's database and commits when the outcome is `handled`. A handler whose time
 * is up is rolled back: it must not keep a connection, or SQLite's only writer. `currentTransaction` and `send` join it.
 */
export const timedTransaction = <Outcome extends { readonly kind: string }>(
  parts: ServiceParts,
  work: (handling: Handling) => Promise<Outcome>,
): Promise<Outcome> => {
  const { inboxDb, settings } = parts;
  return wakingAfter(parts, (entered) =>
    abortAfter(
      settings.handlerTimeoutMs,
      (signal) => {
        const begin: BeginTransaction = (run) => inboxDb.driver.transaction((tx) => run(tx), { signal });
        const within = transaction(inboxDb, { begin });
        return commitIfHandled(within, () => work({ tx: entered("inbox"), signal }));
      },
      () => new InvalidOperationError(`The handler did not finish within ${settings.handlerTimeoutMs} ms.`),
    ),
  );
};

/** Runs work in a transaction on the outbox's database. */
export const wakingTransaction = <T>(
  parts: ServiceParts,
  work: (tx: SqlExecutor) => Promise<T>,
): Promise<T> =>
  wakingAfter(
    parts,
    (entered) => transaction(parts.outboxDb).run(undefined, () => work(entered("outbox"))) as Promise<T>,
  );

/** Wakes the worker after a transaction in which a message was sent. `entered` is called inside, and returns the transaction. */
async function wakingAfter<T>(
  { sentIn, wake }: ServiceParts,
  run: (entered: (use: "inbox" | "outbox") => SqlExecutor) => Promise<T>,
): Promise<T> {
  let tx: SqlExecutor | undefined;
  const result = await run((use) => {
    tx = requireScope(use).tx;
    return tx;
  });
  if (tx !== undefined && sentIn.has(tx)) wake();
  return result;
}
