import { describe, expect, it } from "vitest";
import { sampled } from "../../../src/telemetry/open-telemetry-metrics.js";

function counting() {
  let now = 0;
  const written: number[] = [];
  const write = sampled(
    (value) => void written.push(value),
    () => now,
  );
  const advance = (ms: number): void => {
    now += ms;
  };
  return { written, write, advance };
}

const attributes = { topic: "a" };

describe("durations by the thousand", () => {
  it("all are written up to 500 a second", () => {
    const { written, write, advance } = counting();
    for (let second = 0; second < 5; second++) {
      for (let value = 0; value < 500; value++) write(value, attributes);
      advance(1_000);
    }
    expect(written).toHaveLength(2_500);
  });

  it("of 50,000 a second about 500 are written, chosen by number", () => {
    const { written, write, advance } = counting();
    const second = () => {
      for (let value = 0; value < 50_000; value++) write(value % 7, attributes);
      advance(1_000);
    };
    second(); // learns how many there are
    const before = written.length;
    second();
    const later = written.slice(before);
    expect(later).toHaveLength(500);
    const mean = later.reduce((sum, value) => sum + value, 0) / later.length;
    expect(mean).toBeCloseTo(3, 1);
  });

  it("after a quiet second all are written again", () => {
    const { written, write, advance } = counting();
    for (let value = 0; value < 50_000; value++) write(value, attributes);
    advance(5_000);
    const before = written.length;
    for (let value = 0; value < 500; value++) write(value, attributes);
    expect(written.length - before).toBe(500);
  });

  it("other attributes are counted apart", () => {
    const { written, write } = counting();
    for (let value = 0; value < 50_000; value++) write(value, attributes);
    const before = written.length;
    for (let value = 0; value < 100; value++) write(value, { topic: "b" });
    expect(written.length - before).toBe(100);
  });
});
