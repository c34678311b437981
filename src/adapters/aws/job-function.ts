import middy, { type MiddyfiedHandler } from "@middy/core";
import type { AppDefinition } from "../../app/app-definition.js";
import { type OpenApp, openApp } from "../../app/open-app.js";
import type { Budget } from "../../base/budget.js";
import { afterThaw } from "./after-thaw.js";
import { coldStart } from "./cold-start.js";
import { lambdaBudget } from "./lambda-budget.js";

export type JobFunction<Report> = MiddyfiedHandler<unknown, Report>;

/** A function that works until there is no work or no time left, and returns a report. */
export function jobFunction<Report>(
  definition: AppDefinition,
  jobOf: (app: OpenApp) => (budget: Budget, event: unknown) => Promise<Report>,
): JobFunction<Report> {
  const job = coldStart(definition, openApp, jobOf);
  // The job watches its budget and ends in time. Middy's timer would only cut it off.
  return middy<unknown, Report>({ timeoutEarlyInMillis: 0 })
    .use(afterThaw)
    .handler(async (event, context) => {
      const run = await job();
      return run(lambdaBudget(context), event);
    });
}
