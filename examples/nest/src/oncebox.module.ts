import { type DynamicModule, Inject, Module, type OnApplicationShutdown } from "@nestjs/common";
import {
  createDispatcher,
  createInbox,
  createOutbox,
  createWorker,
  type Database,
  type Handlers,
  type Inbox,
  type InboxMessage,
  migrate,
  type Outbox,
  type OutboxMessage,
  type SqlExecutor,
  type Worker,
} from "oncebox";
import { openPostgres } from "oncebox/postgres";
import { createWebhookRoute, type WebhookSource } from "oncebox/webhooks";

export const DATABASE = Symbol("oncebox database");
export const INBOX = Symbol("oncebox inbox");
export const OUTBOX = Symbol("oncebox outbox");
export const WEBHOOKS = Symbol("oncebox webhook route");
const WORKERS = Symbol("oncebox workers");

export interface OnceboxOptions {
  readonly url: string;
  readonly sources: Readonly<Record<string, WebhookSource>>;
  /** Handlers of what arrives. What they return is enqueued. */
  readonly received: Handlers<InboxMessage, SqlExecutor>;
  /** Handlers that publish what was enqueued. */
  readonly sent: Handlers<OutboxMessage>;
}

/** Inbox, outbox and webhooks for the app's providers. Its workers run until the app shuts down. */
@Module({})
export class OnceboxModule implements OnApplicationShutdown {
  constructor(
    @Inject(WORKERS) private readonly workers: readonly Worker[],
    @Inject(DATABASE) private readonly db: Database,
  ) {}

  static forRoot({ url, sources, received, sent }: OnceboxOptions): DynamicModule {
    const database = async () => {
      const db = openPostgres({ url });
      await migrate(db); // in a project of your own, when you deploy
      return db;
    };
    const workers = (inbox: Inbox, outbox: Outbox) => [
      createWorker({
        store: inbox,
        dispatcher: createDispatcher<InboxMessage, SqlExecutor>({
          handlers: received,
          outbox,
          ignore: ["*"],
        }),
      }),
      createWorker({ store: outbox, dispatcher: createDispatcher<OutboxMessage>({ handlers: sent }) }),
    ];
    return {
      module: OnceboxModule,
      global: true,
      providers: [
        { provide: DATABASE, useFactory: database },
        { provide: INBOX, useFactory: (db: Database) => createInbox(db), inject: [DATABASE] },
        { provide: OUTBOX, useFactory: (db: Database) => createOutbox(db), inject: [DATABASE] },
        {
          provide: WEBHOOKS,
          useFactory: (inbox: Inbox) => createWebhookRoute({ inbox, sources }),
          inject: [INBOX],
        },
        { provide: WORKERS, useFactory: workers, inject: [INBOX, OUTBOX] },
      ],
      exports: [INBOX, OUTBOX, WEBHOOKS],
    };
  }

  async onApplicationShutdown(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.stop()));
    await this.db.close();
  }
}
