import type { Budget } from "../base/async.js";
import type { Logger } from "../base/logger.js";
import type { TopicSchemas } from "../queue/topics.js";
import type { MigrateResult } from "../sql/migrate.js";
import type { AnyDatabase } from "../sql/native.js";
import type { TenantStoreProvider } from "../tenants/connections/tenant-stores.js";
import type { AppFetch, AppListener } from "./app-http.js";
import type { ConsumeJob } from "./consume-job.js";
import type { AppDefinition, AppParts } from "./definition.js";
import type { DispatchReport } from "./dispatch-job.js";
import type { TimeLimits } from "./limited-calls.js";
import type { MaintenanceReport } from "./maintenance-jobs.js";
import type { Platform } from "./open-app.js";
import type { StartOptions } from "./resident.js";

/**
 * The app of a definition. Reads the environment, and opens no connection: the first call that needs one opens it.
 *
 * @example
 * const app = await createApp(defineApp({ handlers: { "stripe.charge.succeeded": ({ messageId }) => console.log(messageId) } }));
 * await app.start({ stopOnSignals: true });
 * createServer(app.listener).listen(8080);
 */
export async function createApp<Topics extends TopicSchemas, Kind extends AnyDatabase>(
  definition: AppDefinition<Topics, Kind>,
  options?: CreateAppOptions,
): Promise<App<Topics, Kind>> {
  // Loaded here: a function has the root of the package in its bundle for `defineApp`, and makes no app.
  const { makeApp } = await import("./make-app.js");
  return (await makeApp(definition as AppDefinition, options)) as unknown as App<Topics, Kind>;
}

/** Where an app differs from what its definition and the environment say. */
export type CreateAppOptions = Partial<Omit<Platform, "wakeUp" | "fanOut">>;

/** One app, on any host. An app with tenants has `tenants`, and no `db`, `inbox` and `outbox` of its own. */
export interface App<Topics extends TopicSchemas = TopicSchemas, Kind extends AnyDatabase = AnyDatabase>
  extends AppParts<Topics, Kind> {
  readonly logger: Logger;
  readonly tenants: TenantStoreProvider | undefined;
  /**
   * Serves webhooks at `/webhooks/{source}` and, where the definition has them, the inbox service at `/v1/inbox/`, the
   * diagnostics and the admin page at `/_oncebox`, and the dispatch route at `/dispatch`, also below a prefix.
   */
  readonly fetch: AppFetch;
  /** The same for node:http, Express, Connect, Nest and hooks of Fastify. It comes before parsers of bodies. */
  readonly listener: AppListener;
  /** For a process that lives on: handles messages as they come, reaps and cleans up, until `stop` or `close`. */
  start(options?: StartOptions): Promise<void>;
  /** Lets running handlers finish or aborts them, and settles. */
  stop(): Promise<void>;
  /**
   * Polls now; in an app with tenants, this one. The app does so by itself after its own commits. It cannot see the commit of
   * a transaction that another library began, and polls a moment after the message was stored: call this after a longer one.
   */
  wake(tenant?: string): void;
  /** Handles what is due, until nothing is left or the time is nearly over. */
  dispatch(limits?: TimeLimits | Budget): Promise<DispatchReport>;
  /** Ends expired leases, and logs for how long the oldest due messages have waited. */
  reap(limits?: TimeLimits | Budget): Promise<MaintenanceReport>;
  /** Deletes what has been done, or dead, for longer than its retention. */
  cleanup(limits?: TimeLimits | Budget): Promise<MaintenanceReport>;
  /** Handles one message of a queue service. Undefined where the definition has no consumer. */
  readonly consume: ConsumeJob | undefined;
  /** Creates or updates the tables. Call it when you deploy. */
  migrate(): Promise<MigrateResult>;
  /** Stops, waits for calls of `dispatch`, and closes the databases. */
  close(): Promise<void>;
}
