import { AsyncLocalStorage } from "node:async_hooks";
import { app as functionApp, type InvocationContext } from "@azure/functions";
import { type Budget, timeBudget } from "../../base/async.js";
import { jsonLogger, type Logger, type LogLevel } from "../../base/logger.js";

type Handler<Report> = (trigger: unknown, context: InvocationContext) => Promise<Report>;

/**
 * Makes the handlers of jobs that share what `ready` returns. Each ends within `runMs`. Before the platform removes an
 * instance, running jobs end, release what they have not started, and the connections close.
 */
export function timedJobs<Ready extends { close(): Promise<unknown> }>(
  ready: () => Promise<Ready>,
  runMs: number,
): <Report>(work: (ready: Ready, budget: Budget, trigger: unknown) => Promise<Report>) => Handler<Report> {
  const stopping = new AbortController();
  const runs = new Set<Promise<unknown>>();
  functionApp.hook.appTerminate(async () => {
    stopping.abort();
    await Promise.allSettled(runs);
    await ready().then(
      (made) => made.close(),
      () => {}, // it never started
    );
  });
  return (work) => (trigger, context) => {
    const budget = timeBudget(runMs, stopping.signal); // before ready(): the host's clock runs while the app starts
    const run = inInvocation(context, async () => work(await ready(), budget, trigger));
    runs.add(run);
    return run.finally(() => runs.delete(run));
  };
}

const current = new AsyncLocalStorage<{ context: InvocationContext | undefined }>();

/** Runs `work` so that its log lines belong to this invocation, until the invocation ends. */
export function inInvocation<T>(context: InvocationContext, work: () => Promise<T>): Promise<T> {
  const invocation: { context: InvocationContext | undefined } = { context };
  return current.run(invocation, work).finally(() => {
    invocation.context = undefined; // the host warns about later lines
  });
}

/**
 * Writes lines of JSON to the invocation's own log, so that Application Insights knows their level and invocation. Lines
 * on the standard output have neither.
 */
export const invocationLogger = (level: LogLevel): Logger =>
  jsonLogger(level, (line, at) => {
    const context = current.getStore()?.context;
    if (context === undefined) process.stdout.write(`${line}\n`);
    else context[at](line);
  });
