export type MetricAttributes = Readonly<Record<string, string | number | boolean>>;

/** Receives measurements and passes them to OpenTelemetry or to a cloud's metrics. */
export interface Metrics {
  count(name: string, value: number, attributes: MetricAttributes): void;
  duration(name: string, ms: number, attributes: MetricAttributes): void;
  /** The present value of something that goes up and down, such as the length of a queue. */
  gauge?(name: string, value: number, attributes: MetricAttributes): void;
  /** A value whose distribution is of interest, such as the retries of a message. Without it `count` gets the value. */
  histogram?(name: string, value: number, attributes: MetricAttributes): void;
}

/** Drops what a metrics sink throws: broken metrics must not fail a message. */
export function guardedMetrics(metrics: Metrics): Required<Metrics> {
  const guard = (write: () => void): void => {
    try {
      write();
    } catch {
      // the measurement is lost
    }
  };
  return {
    count: (name, value, attributes) => guard(() => metrics.count(name, value, attributes)),
    duration: (name, ms, attributes) => guard(() => metrics.duration(name, ms, attributes)),
    gauge: (name, value, attributes) => guard(() => metrics.gauge?.(name, value, attributes)),
    histogram: (name, value, attributes) =>
      guard(() => {
        if (metrics.histogram === undefined) metrics.count(name, value, attributes);
        else metrics.histogram(name, value, attributes);
      }),
  };
}
