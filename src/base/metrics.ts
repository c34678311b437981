export type MetricAttributes = Readonly<Record<string, string | number | boolean>>;

/** Where numbers go: OpenTelemetry, a cloud's own metrics, or nowhere. */
export interface Metrics {
  count(name: string, value: number, attributes: MetricAttributes): void;
  duration(name: string, ms: number, attributes: MetricAttributes): void;
}

/** Metrics that throw must not cost a message. */
export function guardedMetrics(metrics: Metrics): Metrics {
  const guard = (write: () => void): void => {
    try {
      write();
    } catch {
      // a number less
    }
  };
  return {
    count: (name, value, attributes) => guard(() => metrics.count(name, value, attributes)),
    duration: (name, ms, attributes) => guard(() => metrics.duration(name, ms, attributes)),
  };
}
