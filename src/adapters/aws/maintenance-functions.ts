import type { AppDefinition } from "../../app/app-definition.js";
import { cleanupJob, type MaintenanceReport, reapJob } from "../../app/maintenance-jobs.js";
import { jobFunction } from "./job-function.js";
import type { JobFunction } from "./timed-function.js";

/** Reaps messages whose lease has expired, because the function that claimed them died. For a schedule. */
export const reapFunction = (definition: AppDefinition): JobFunction<MaintenanceReport> =>
  jobFunction(definition, reapJob);

/** Deletes messages that were done before the retention. For a schedule. */
export const cleanupFunction = (definition: AppDefinition): JobFunction<MaintenanceReport> =>
  jobFunction(definition, cleanupJob);
