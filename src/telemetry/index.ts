export { measureQueue } from "../queue/maintenance.js";
export { type OpenTelemetryOptions, openTelemetry } from "./open-telemetry.js";
