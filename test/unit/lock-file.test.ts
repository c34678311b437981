import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

interface LockedPackage {
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly resolved?: string;
}

const file = fileURLToPath(new URL("../../package-lock.json", import.meta.url));
const { packages } = JSON.parse(readFileSync(file, "utf8")) as {
  packages: Readonly<Record<string, LockedPackage>>;
};

describe("the lock file", () => {
  it("has the packages of every platform, as npm ci requires", () => {
    const locked = new Set(Object.keys(packages).map((path) => path.split("node_modules/").at(-1)));
    const wanted = Object.values(packages).flatMap((one) => Object.keys(one.optionalDependencies ?? {}));
    expect(wanted.length).toBeGreaterThan(50);
    expect(wanted.filter((name) => !locked.has(name))).toEqual([]);
  });

  it("names no registry", () => {
    expect(Object.values(packages).filter(({ resolved }) => resolved !== undefined)).toEqual([]);
  });
});
