export type MetricAttributes = Readonly<Record<string, string | number | boolean>>;

/** Where numbers go: OpenTelemetry, a cloud's own metrics, or nowhere. */
export interface Metrics {
  count(name: string, value: number, attributes: MetricAttributes): void;
  duration(name: string, ms: number, attributes: MetricAttributes): void;
}

export const silentMetrics: Metrics = { count: () => {}, duration: () => {} };
