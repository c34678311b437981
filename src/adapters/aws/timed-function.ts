import middy, { type MiddyfiedHandler } from "@middy/core";
import type { Budget } from "../../base/budget.js";
import { afterThaw } from "./after-thaw.js";
import { lambdaBudget } from "./lambda-budget.js";

/** A job that ends within its budget. */
export type TimedJob<Report> = (budget: Budget, event: unknown) => Promise<Report>;

export type JobFunction<Report> = MiddyfiedHandler<unknown, Report>;

/** A function that runs a job within the time that Lambda leaves it, and returns its report. */
export const timedFunction = <Report>(job: () => Promise<TimedJob<Report>>): JobFunction<Report> =>
  // The job watches its budget and ends in time. Middy's timer would only cut it off.
  middy<unknown, Report>({ timeoutEarlyInMillis: 0 })
    .use(afterThaw)
    .handler(async (event, context) => {
      const run = await job();
      return run(lambdaBudget(context), event);
    });
