import type { AppDefinition } from "../../app/app-definition.js";
import { cleanupJob, type MaintenanceReport, reapJob } from "../../app/maintenance-jobs.js";
import { type JobFunction, jobFunction } from "./job-function.js";

/** Takes back what was claimed by functions that died: for a schedule. */
export const reapFunction = (definition: AppDefinition): JobFunction<MaintenanceReport> =>
  jobFunction(definition, reapJob);

/** Deletes what has been done for long enough: for a schedule. */
export const cleanupFunction = (definition: AppDefinition): JobFunction<MaintenanceReport> =>
  jobFunction(definition, cleanupJob);
