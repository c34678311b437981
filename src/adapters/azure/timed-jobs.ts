import { app as functionApp, type InvocationContext } from "@azure/functions";
import { type Budget, timeBudget } from "../../base/budget.js";
import { inInvocation } from "./invocation-logger.js";

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
