import { defined } from "../base/defined.js";
import { createInbox, type Inbox } from "../inbox/inbox.js";
import { createOutbox, type Outbox } from "../outbox/outbox.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import { combinedMessages } from "./check-messages.js";
import type { DeadMessages } from "./dead-messages.js";
import type { MessageDefinition } from "./define-messages.js";
import { type Reports, serviceReports, warningsOf } from "./reports.js";
import { policyOf } from "./retry-options.js";
import type { ServiceDestination } from "./service-destinations.js";
import {
  type AnyServiceOptions,
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
  const { serviceId, db, schema, clock, logger, metrics, tracing } = options;
  const settings = settingsOf(options);
  const {
    outbox: outboxDb,
    inbox: inboxDb,
    otherOutboxes = [],
  }: SeparateDatabases = "driver" in db ? { outbox: db, inbox: db } : db;
  const reports = serviceReports(serviceId, defined({ logger, metrics }));
  const store = defined({ schema, clock, logger: warningsOf(reports.logger), metrics, tracing });
  return {
    options,
    settings,
    serviceId,
    messages: combinedMessages(options.messages),
    destinations,
    outboxDb,
    inboxDb,
    outbox: createOutbox(outboxDb, {
      ...store,
      table: `${settings.table}_outbox`,
      retry: policyOf(settings.retry),
      onDead: dead.listener,
    }),
    otherOutboxes: otherOutboxes.map((other) =>
      createOutbox(other, { ...store, table: `${settings.table}_outbox` }),
    ),
    inbox: createInbox(inboxDb, { ...store, table: `${settings.table}_inbox` }),
    reports,
    now: clock ?? (() => new Date()),
    sentIn: new WeakSet(),
    dead,
    wake,
  };
}
