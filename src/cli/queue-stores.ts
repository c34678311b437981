import type { App } from "../app/create-app.js";
import { InvalidArgumentError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import type { Outbox } from "../outbox/outbox.js";
import type { Controls } from "../queue/controls.js";
import type { DeadLetters, OperatorOptions } from "../queue/dead-letters.js";
import type { InboxKey, InboxMessage, OutboxKey, OutboxMessage } from "../queue/message.js";
import type { OperatorReads } from "../queue/operator-reads.js";
import type { ListFilter, Page, Settlement } from "../queue/work-store.js";
import type { Database } from "../sql/dialect.js";
import { type CommandInput, databaseHelp, databaseOptions, text, UsageError } from "./command.js";
import { requireDatabaseFile, withExistingDatabase } from "./existing-database.js";
import type { QueueKind } from "./message-filter.js";

export type AnyMessage = InboxMessage | OutboxMessage;
export type AnyKey = InboxKey | OutboxKey;

/** What the commands on messages need of an inbox or an outbox. */
export interface QueueStore
  extends Omit<DeadLetters<AnyKey>, "editAndReplay">,
    Pick<OperatorReads<AnyKey>, "blockedPartitions">,
    Controls {
  list(filter: ListFilter<string>): Promise<Page<AnyMessage>>;
  replay(messages: readonly AnyKey[], options: OperatorOptions): Promise<Settlement<unknown>>;
}

export interface QueueStores {
  readonly db: Database;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
}

export const storeOptions = { ...databaseOptions, tenant: { type: "string" } } as const;
export const storeHelp = { tenant: "the tenant's id, for an app with tenants", ...databaseHelp };

/** A queue whose kind is known only at run time. The states and keys are those of its own kind. */
export const storeOf = (stores: QueueStores, queue: QueueKind): QueueStore =>
  stores[queue] as unknown as QueueStore;

/** For commands on the messages of one database: the app's, or that of the tenant that `--tenant` names. */
export const withStores = (
  input: CommandInput,
  work: (stores: QueueStores) => Promise<number>,
): Promise<number> => withExistingDatabase(input, async (app) => work(await chosenStores(input, app)));

async function chosenStores({ values }: CommandInput, app: App): Promise<QueueStores> {
  const tenant = text(values, "tenant");
  if (app.tenants === undefined) {
    if (tenant !== undefined) throw new UsageError("--tenant is for an app with tenants; this one has none.");
    return app;
  }
  if (tenant === undefined) throw new UsageError("This app has tenants. Name one with --tenant ID.");
  const stores = await app.tenants.find(tenant);
  if (stores === undefined) throw new InvalidArgumentError(`There is no tenant "${tenant}".`);
  requireDatabaseFile(stores.db);
  return stores;
}
