import type { MetricAttributes } from "../base/metrics.js";

type Write = (value: number, attributes: MetricAttributes) => void;

interface Seen {
  windowEndsAt: number;
  inWindow: number;
  /** One value in so many was written at the end of the last window. */
  lastRatio: number;
}

/** With fewer values a second all of them are written. */
const allOf = 500;
const windowMs = 1_000;

/**
 * Writes all values up to 500 a second for the same attributes, and then one in two, three and so on. One value costs an
 * SDK 1–3 µs, as much as a fifth of a message whose handler does nothing, and so many values have the same distribution as
 * a part of them. Chosen by number, not by time: a slow handler is not more likely to be written than a quick one. Only
 * attributes that are the same object are known to be the same, as the dispatcher's are.
 */
export function thinned(write: Write, now: () => number = () => performance.now()): Write {
  const known = new WeakMap<MetricAttributes, Seen>();
  return (value, attributes) => {
    let seen = known.get(attributes);
    if (seen === undefined) {
      seen = { windowEndsAt: 0, inWindow: 0, lastRatio: 1 };
      known.set(attributes, seen);
    }
    const time = now();
    if (time >= seen.windowEndsAt) {
      const isNext = time < seen.windowEndsAt + windowMs;
      seen.lastRatio = isNext ? Math.max(1, Math.ceil(seen.inWindow / allOf)) : 1;
      seen.inWindow = 0;
      seen.windowEndsAt = time + windowMs;
    }
    const ratio = Math.max(seen.lastRatio, Math.ceil(seen.inWindow / allOf));
    if (seen.inWindow++ % ratio === 0) write(value, attributes);
  };
}
