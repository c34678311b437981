import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { packageVersion } from "../../src/base/require-package.js";

it("MSG-14 the version that the diagnostics API shows is that of package.json", () => {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  expect(packageVersion).toBe((JSON.parse(manifest) as { version: string }).version);
});
