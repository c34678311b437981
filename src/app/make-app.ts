import type { Budget } from "../base/async.js";
import { readEnvironment } from "../config/environment.js";
import { wakeUps } from "../dispatch/worker.js";
import { InvalidOperationError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import { type QueueKind, queueKinds } from "../queue/work-store.js";
import type { App, CreateAppOptions } from "./app.js";
import { appHttp } from "./app-http.js";
import type { AppDefinition } from "./definition.js";
import { jobsOf } from "./jobs.js";
import { limitedCalls } from "./limited-calls.js";
import { openApp } from "./open-app.js";
import { closeOnSignals, residentOf } from "./resident.js";
import { wakingApp } from "./waking-app.js";

/** Below the limits of all hosts that have been looked at but the smallest plans: see docs/hosts.md. */
const defaultTimeMs = 25_000;

/** Makes what `createApp` returns. */
export async function makeApp(definition: AppDefinition, options: CreateAppOptions = {}): Promise<App> {
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
    try {
      await resident.stop();
      await calls.end();
    } finally {
      await jobs.close();
    }
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
      if (closing !== undefined)
        throw new InvalidOperationError("The app is closed. Make another one with createApp.");
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
