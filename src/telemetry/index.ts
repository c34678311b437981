export { measureQueue } from "../queue/maintenance.js";
export { type MetricEntry, metricTable } from "./metric-table.js";
export { type OpenTelemetryOptions, openTelemetry } from "./open-telemetry.js";
