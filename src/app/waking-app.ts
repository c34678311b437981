import type { Inbox } from "../inbox/inbox.js";
import type { Outbox } from "../outbox/outbox.js";
import type { QueueMessage } from "../queue/message.js";
import type { Acknowledgement, QueueKind, WorkStore } from "../queue/work-store.js";
import { type Database, originalOf } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { TenantStoreProvider, TenantStores } from "../tenants/connections/tenant-stores.js";
import type { AppParts } from "./definition.js";
import type { OpenApp } from "./open-app.js";

/** Called after each commit that stores messages: with the queue, and with the tenant in an app that has tenants. */
export type Committed = (queue: QueueKind, tenant?: string) => void;

/** The same app. Its stores say when they have committed messages, so that a worker of this process polls at once. */
export function wakingApp(app: OpenApp, committed: Committed): OpenApp {
  const { tenants } = app;
  if (tenants === undefined) return { ...app, ...wakingParts(app, committed) };
  return {
    ...app,
    tenants: {
      ...tenants,
      stores: wakingTenants(tenants.stores, committed),
      wake: async ({ tenant }) => {
        if (tenant !== null) committed("inbox", tenant);
      },
    },
  };
}

function wakingParts({ db, inbox, outbox }: AppParts, committed: Committed): AppParts {
  const commits = commitWatch(committed);
  return {
    db: wakingDatabase(db, commits),
    inbox: wakingInbox(inbox, commits),
    outbox: wakingOutbox(outbox, commits),
  };
}

/** What the code of a user gets. The turns of the tenants' own dispatcher find by themselves what their handlers store. */
function wakingTenants(provider: TenantStoreProvider, committed: Committed): TenantStoreProvider {
  const known = new WeakMap<TenantStores, TenantStores>();
  const waking = (stores: TenantStores): TenantStores => {
    const { id } = stores;
    const commits = commitWatch((queue) => committed(queue, id));
    const made = known.get(stores) ?? {
      ...stores,
      db: wakingDatabase(stores.db, commits),
      inbox: wakingInbox(stores.inbox, commits),
      outbox: wakingOutbox(stores.outbox, commits),
    };
    known.set(stores, made);
    return made;
  };
  return {
    ...provider,
    stores: async (key) => waking(await provider.stores(key)),
    inbox: async (key) => waking(await provider.stores(key)).inbox,
    outbox: async (key) => waking(await provider.stores(key)).outbox,
    async find(key) {
      const stores = await provider.find(key);
      return stores && waking(stores);
    },
  };
}

const wakingDatabase = <Opened extends Database>(db: Opened, { within }: CommitWatch): Opened => ({
  ...db,
  original: originalOf(db),
  driver: {
    ...db.driver,
    transaction: (work, options) => within((run) => db.driver.transaction(run, options), work),
  },
});

const wakingInbox = (inbox: Inbox, commits: CommitWatch): Inbox => ({
  ...inbox,
  ...wakingSettlements(inbox, commits),
  async receive(message, call) {
    const outcome = await inbox.receive(message, call);
    if (outcome === "enqueued") commits.stored("inbox", call?.tx);
    return outcome;
  },
  async enqueue(messages, call) {
    const outcomes = await inbox.enqueue(messages, call);
    if (outcomes.includes("enqueued")) commits.stored("inbox", call?.tx);
    return outcomes;
  },
});

function wakingOutbox(outbox: Outbox, commits: CommitWatch): Outbox {
  const waking =
    <Given, Call extends { readonly tx?: SqlExecutor }, Result>(
      enqueue: (given: Given, call?: Call) => Promise<Result>,
    ) =>
    async (given: Given, call?: Call): Promise<Result> => {
      const result = await enqueue(given, call);
      commits.stored("outbox", call?.tx);
      return result;
    };
  return {
    ...outbox,
    ...wakingSettlements(outbox, commits),
    enqueue: waking(outbox.enqueue) as Outbox["enqueue"],
    enqueueOnce: waking(outbox.enqueueOnce) as Outbox["enqueueOnce"],
  };
}

/** What both queues have: an acknowledgement that enqueues what a handler returned, and transactions. */
const wakingSettlements = <Message extends QueueMessage, Key>(
  store: Settling<Message, Key>,
  { stored, within }: CommitWatch,
): Settling<Message, Key> => ({
  async ack(owner, messages, call) {
    const settlement = await store.ack(owner, messages, call);
    if (messages.some(sends)) stored("outbox", call?.tx);
    return settlement;
  },
  transaction: (work, call) => within((run) => store.transaction(run, call), work),
});

type Settling<Message extends QueueMessage, Key> = Pick<
  WorkStore<Key, Message, string, SqlExecutor>,
  "ack" | "transaction"
>;

const sends = (message: unknown): boolean =>
  (message as Partial<Acknowledgement<unknown>>).outgoing !== undefined;

/** How long after a message was stored in the caller's own transaction its commit is looked for. */
const foreignCommitMs = 50;

type CommitWatch = ReturnType<typeof commitWatch>;

/**
 * Says when messages are committed. Of a transaction that another library began only its user knows the end: the worker
 * is woken a moment later, and from then on polls as often as it does after work.
 */
function commitWatch(committed: Committed) {
  const open = new WeakMap<SqlExecutor, Set<QueueKind>>();
  const waiting = new Set<QueueKind>();
  const soon = (queue: QueueKind): void => {
    if (waiting.has(queue)) return;
    waiting.add(queue);
    const wake = (): void => {
      waiting.delete(queue);
      committed(queue);
    };
    setTimeout(wake, foreignCommitMs).unref();
  };
  return {
    stored(queue: QueueKind, tx: SqlExecutor | undefined): void {
      if (tx === undefined) committed(queue);
      else if (open.has(tx)) open.get(tx)!.add(queue);
      else soon(queue);
    },
    /** Runs work in a transaction of this package, whose end it knows. */
    async within<T>(
      begin: (run: (tx: SqlExecutor) => Promise<T>) => Promise<T>,
      work: (tx: SqlExecutor) => Promise<T>,
    ): Promise<T> {
      const stored = new Set<QueueKind>();
      const result = await begin((tx) => {
        open.set(tx, stored);
        return work(tx);
      });
      for (const queue of stored) committed(queue);
      return result;
    },
  };
}
