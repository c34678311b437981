import type { Budget } from "../base/budget.js";
import type { Logger } from "../base/logger.js";
import { readEnvironment } from "../config/environment.js";
import { wakeUps } from "../dispatch/worker.js";
import { refuseUnknown } from "../queue/arguments.js";
import { type QueueKind, queueKinds } from "../queue/work-store.js";
import type { MigrateResult } from "../sql/migrate.js";
import type { TenantStoreProvider } from "../tenants/connections/tenant-stores.js";
import { type AppFetch, type AppListener, appHttp } from "./app-http.js";
import type { ConsumeJob } from "./consume-job.js";
import type { AppDefinition, AppParts } from "./definition.js";
import type { DispatchReport } from "./dispatch-job.js";
import { jobsOf } from "./jobs.js";
import { limitedCalls, type TimeLimits } from "./limited-calls.js";
import type { MaintenanceReport } from "./maintenance-jobs.js";
import { openApp, type Platform } from "./open-app.js";
import { closeOnSignals, residentOf, type StartOptions } from "./resident.js";
import { wakingApp } from "./waking-app.js";

/** Where an app differs from what its definition and the environment say. */
export type CreateAppOptions = Partial<Omit<Platform, "wakeUp" | "fanOut">>;

/** One app, on any host. An app with tenants has `tenants`, and no `db`, `inbox` and `outbox` of its own. */
export interface App extends AppParts {
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

/** Below the limits of all hosts that have been looked at but the smallest plans: see docs/hosts.md. */
const defaultTimeMs = 25_000;

/**
 * The app of a definition. Reads the environment, and opens no connection: the first call that needs one opens it.
 *
 * @example
 * const app = await createApp(defineApp({ handlers: { "charge.succeeded": ({ messageId }) => console.log(messageId) } }));
 * await app.start({ stopOnSignals: true });
 * createServer(app.listener).listen(8080);
 */
export async function createApp(definition: AppDefinition, options: CreateAppOptions = {}): Promise<App> {
  refuseUnknown(options, optionNames, "createApp");
  const environment = options.environment ?? (await readEnvironment());
  const runs = { inbox: wakeUps(), outbox: wakeUps() }; // of `dispatch`
  const wake = (queue: QueueKind, tenant?: string): void => {
    runs[queue].wake();
    resident.wake(queue, tenant);
  };
  const opened = wakingApp(await openApp(definition, { ...options, environment }), wake);
  const jobs = await jobsOf(opened);
  const resident = residentOf(opened, jobs);
  const { db, inbox, outbox, logger, tenants, reap, cleanup, consume, migrate } = jobs;
  const calls = limitedCalls(definition.cron?.timeMs ?? defaultTimeMs);
  const onWake = { inbox: runs.inbox.subscribe, outbox: runs.outbox.subscribe };
  const dispatch = (budget: Budget) => jobs.dispatch(budget, { onWake });
  const { listener, fetch } = appHttp(opened, { ...jobs, dispatch }, calls, {
    isStarted: resident.isRunning,
    wake: (tenant) => wakeBoth(tenant),
  });
  const wakeBoth = (tenant?: string): void => {
    for (const queue of queueKinds) wake(queue, tenant);
  };
  let ignoreSignals = (): void => {};
  let closing: Promise<void> | undefined;
  const shutDown = async (): Promise<void> => {
    await resident.stop();
    await calls.end();
    await jobs.close();
  };
  const closeOnce = (): Promise<void> => {
    closing ??= shutDown();
    return closing;
  };

  return {
    db,
    inbox,
    outbox,
    logger,
    tenants,
    fetch,
    listener,
    async start(startOptions = {}) {
      resident.start(startOptions);
      if (startOptions.stopOnSignals) ignoreSignals = closeOnSignals(closeOnce, logger);
    },
    async stop() {
      ignoreSignals();
      await resident.stop();
    },
    wake: wakeBoth,
    dispatch: calls.call("dispatch", dispatch),
    reap: calls.call("reap", reap),
    cleanup: calls.call("cleanup", cleanup),
    consume:
      consume &&
      (async (message) => {
        await consume(message);
        wake("outbox");
      }),
    migrate,
    async close() {
      ignoreSignals();
      await closeOnce();
    },
  };
}

const optionNames = ["environment", "resolveSecret", "signInAs", "maxConnections", "logger"];
