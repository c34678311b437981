import type { AppDefinition } from "../../app/app-definition.js";
import { type OpenApp, openApp } from "../../app/open-app.js";
import { coldStart } from "./cold-start.js";
import { type JobFunction, type TimedJob, timedFunction } from "./timed-function.js";

/** A function that works until there is no work or no time left, and returns a report. */
export const jobFunction = <Report>(
  definition: AppDefinition,
  jobOf: (app: OpenApp) => TimedJob<Report>,
): JobFunction<Report> => timedFunction(coldStart(definition, openApp, jobOf));
