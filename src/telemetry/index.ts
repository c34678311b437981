export { measureQueue } from "../queue/maintenance.js";
export type { MetricEntry } from "./metric-table.js";
export { metricTable } from "./metric-table.js";
export type { OpenTelemetryOptions } from "./open-telemetry.js";
export { openTelemetry } from "./open-telemetry.js";
