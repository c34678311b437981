import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    globalSetup: "test/support/global-setup.ts",
    include: ["test/**/*.test.ts"],
    reporters: ["default", "./test/support/summary-reporter.ts"],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // whole files run beside each other; within a file one test at a time
    fileParallelism: true,
    // two also where there are only two cores: most tests wait for a database or for another process
    maxWorkers: Math.max(2, availableParallelism() - 1),
  },
});
