import { describe, expect, it } from "vitest";
import { uuidV7 } from "../../../src/base/uuid.js";

describe("uuid v7", () => {
  it("OBX-014 has the version, the variant and the time of RFC 9562", () => {
    const nowMs = Date.UTC(2030, 0, 1, 12, 34, 56, 789);
    for (let n = 0; n < 200; n++) {
      const id = uuidV7(nowMs);
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16)).toBe(nowMs);
    }
  });

  it("OBX-014 sorts by time", () => {
    const times = [0, 1, 1_000, Date.UTC(2024, 0), Date.UTC(2024, 0) + 1, Date.UTC(2200, 0), 2 ** 48 - 1];
    const ids = times.map((time) => uuidV7(time));
    expect([...ids].sort()).toEqual(ids);
  });

  it("OBX-014 is unique, within one millisecond too", () => {
    const ids = new Set(Array.from({ length: 20_000 }, () => uuidV7(1_900_000_000_000)));
    expect(ids.size).toBe(20_000);
  });

  it("OBX-014 takes the present time by default", () => {
    const before = Date.now();
    const time = Number.parseInt(uuidV7().replaceAll("-", "").slice(0, 12), 16);
    expect(time).toBeGreaterThanOrEqual(before);
    expect(time).toBeLessThanOrEqual(Date.now());
  });
});
