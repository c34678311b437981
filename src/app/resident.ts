import { type Budget, type Repeating, repeating, timeBudget } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { type Logger, safeReason } from "../base/logger.js";
import { startWorker, type WakeUpSource, type WorkerSettings, workerDurations } from "../dispatch/worker.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { refuseUnknown, requireInterval } from "../queue/arguments.js";
import type { QueueKind } from "../queue/work-store.js";
import { createTenantWorker } from "../tenants/scheduling/tenant-worker.js";
import type { AppJobs } from "./jobs.js";
import type { OpenTenants } from "./multi-tenant.js";
import type { OpenApp } from "./open-app.js";
import type { Committed } from "./waking-app.js";

/** How an app runs in a process that lives on. */
export interface StartOptions extends Omit<WorkerSettings, "wakeUp"> {
  /** Between two clean-ups: a minute by default, and an hour for an app with tenants. */
  readonly cleanupMs?: number;
  /**
   * At SIGTERM and SIGINT the app closes, and then the signal ends the process, unless other code listens for it. Off by
   * default: a server closes itself first.
   */
  readonly stopOnSignals?: boolean;
  /** On PostgreSQL: commits of other processes wake this one, too. Needs `enableNotify` for each queue, where you migrate. */
  readonly notify?: boolean;
}

const known = [
  ...["pollMs", "idlePollMs", "reapMs", "drainMs", "exitWhenStuck"],
  ...["cleanupMs", "stopOnSignals", "notify"],
];

/** A clean-up of tenants polls each of their databases, so it is rarer. */
export const cleanupIntervalMs = ({ cleanupMs }: StartOptions, hasTenants: boolean): number =>
  cleanupMs ?? (hasTenants ? 3_600_000 : 60_000);

/** The time of one reap or clean-up, as a function would have it. */
const jobMs = 60_000;

interface Running {
  readonly wake: Committed;
  stop(): Promise<void>;
}

/** The workers, the reaper and the clean-up of a process. They run between `start` and `stop`, as often as wanted. */
export function residentOf(app: OpenApp, jobs: AppJobs) {
  let running: Running | undefined;
  return {
    isRunning: () => running !== undefined,
    wake: ((queue, tenant) => running?.wake(queue, tenant)) as Committed,
    start(options: StartOptions): void {
      checkOptions(options);
      if (running !== undefined)
        throw new InvalidOperationError(
          "The app has been started already. Await stop() before another start().",
        );
      running = startAll(app, jobs, options);
    },
    /** Resolves when everything is settled, for all callers. */
    async stop(): Promise<void> {
      const stopped = running;
      await stopped?.stop();
      if (running === stopped) running = undefined; // it may have been started again meanwhile
    },
  };
}

function checkOptions(options: StartOptions): void {
  refuseUnknown(options, known, "start");
  for (const name of ["reapMs", "cleanupMs"] as const)
    if (options[name] !== undefined) requireInterval(options[name], name);
}

function startAll(app: OpenApp, jobs: AppJobs, options: StartOptions): Running {
  const { tenants, logger } = app;
  const workers =
    tenants === undefined ? queueWorkers(app, jobs, options) : tenantWorker(tenants, logger, options);
  const timers = maintenance(tenants === undefined ? jobs : { cleanup: jobs.cleanup }, logger, {
    ...options,
    cleanupMs: cleanupIntervalMs(options, tenants !== undefined),
  });
  return {
    wake: workers.wake,
    async stop() {
      await Promise.all([workers.stop(), ...timers.map((timer) => timer.stop())]);
    },
  };
}

/** A worker for each queue that has handlers. The reaper reaps both. */
function queueWorkers(app: OpenApp, { dispatchers }: AppJobs, options: StartOptions): Running {
  const { inbox, outbox, logger } = app;
  const { pollMs, idlePollMs, drainMs, exitWhenStuck, notify = false } = options;
  const settings = { ...omitUndefined({ pollMs, idlePollMs, drainMs, exitWhenStuck }), logger, reaps: false };
  const settingsOf = (kind: QueueKind) =>
    notify ? { ...settings, wakeUp: commitsOfOthers(app, kind) } : settings;
  const workers = {
    inbox: dispatchers?.inbox && startWorker(dispatchers.inbox, inbox, settingsOf("inbox")),
    outbox: dispatchers?.outbox && startWorker(dispatchers.outbox, outbox, settingsOf("outbox")),
  };
  return {
    wake: (queue) => workers[queue]?.wake(),
    async stop() {
      await Promise.all([workers.inbox?.stop(), workers.outbox?.stop()]);
    },
  };
}

function commitsOfOthers({ db, definition, logger }: OpenApp, kind: QueueKind): WakeUpSource {
  if (db.notifications === undefined)
    throw new InvalidArgumentError("start: notify needs PostgreSQL. Leave it out on other databases.");
  const { schema } = definition;
  const queue = { kind, ...omitUndefined({ schema, table: definition[kind]?.table }) };
  return db.notifications.wakeUp(queue, logger);
}

function tenantWorker(
  { workerParts }: OpenTenants,
  logger: Logger,
  { idlePollMs, reapMs, drainMs, notify = false, exitWhenStuck = false }: StartOptions,
): Running {
  if (notify || exitWhenStuck)
    throw new InvalidArgumentError("start: notify and exitWhenStuck are not for an app with tenants.");
  const settings = omitUndefined({ idlePollMs, reapMs, drainMs });
  const worker = createTenantWorker({ ...workerParts, ...settings, logger });
  return {
    wake(_queue, tenant) {
      if (tenant !== undefined) worker.wake(tenant);
    },
    stop: worker.stop,
  };
}

/** The worker of tenants reaps by itself. */
function maintenance(
  { reap, cleanup }: Pick<AppJobs, "cleanup"> & { readonly reap?: AppJobs["reap"] },
  logger: Logger,
  { reapMs = workerDurations.reapMs, cleanupMs }: StartOptions & { readonly cleanupMs: number },
): readonly Repeating[] {
  const job = (name: string, run: (budget: Budget) => Promise<unknown>) => async (signal: AbortSignal) => {
    try {
      await run(timeBudget(jobMs, signal));
    } catch (error) {
      if (!signal.aborted) logger.error(`${name} failed`, { error: safeReason(error) });
    }
  };
  return [
    ...(reap === undefined ? [] : [repeating(reapMs, job("reap", reap))]),
    repeating(cleanupMs, job("clean-up", cleanup)),
  ];
}

const stopSignals = ["SIGTERM", "SIGINT"] as const;

/**
 * Calls `close` at the first signal, and then lets the signal end the process. A second signal meanwhile ends it at once.
 * Returns how not to.
 */
export function closeOnSignals(close: () => Promise<void>, logger: Logger): () => void {
  let isClosing = false;
  const ignore = (): void => {
    for (const name of stopSignals) process.off(name, closeAndEnd);
  };
  const closeAndEnd = async (name: NodeJS.Signals): Promise<void> => {
    if (!isClosing) {
      isClosing = true;
      logger.info("stopping", { signal: name });
      await close().catch((error: unknown) => logger.error("stopping failed", { error: safeReason(error) }));
    }
    ignore();
    // Where other code listens, another app for example, it decides when the process ends.
    if (process.listenerCount(name) === 0) process.kill(process.pid, name);
  };
  for (const name of stopSignals) process.on(name, closeAndEnd);
  return ignore;
}
