import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** They start, kill or flood processes, package functions, compile programs or walk through pages: `npm run test:long`. */
const long = [
  "test/browser/**/*.test.ts",
  "test/faults/**/*.test.ts",
  "test/runtime/**/*.test.ts",
  "test/infra/{aws-deployment,aws-first-run,azure-deployment,init,package-formats}.test.ts",
  "test/unit/docs/{examples,first-programs,frameworks,patterns,programs}.test.ts",
  "test/unit/messaging/mutated-*.test.ts",
];
/** `npm run test:nodes`, because SQLite differs from one Node to the other. */
const nodes = ["test/contract/sqlite-memory.test.ts"];
/** They put something else in the place of a module. */
const mocking = ["test/unit/transient-retry.test.ts", "test/unit/security/constant-time.test.ts"];
const unit = ["test/unit/**/*.test.ts"];

export default defineConfig({
  // The examples import the package by its name; tests run them on its sources.
  resolve: {
    alias: [
      ["oncebox", "index"],
      ["oncebox/middleware", "middleware/index"],
      ["oncebox/postgres", "sql/postgres/index"],
      ["oncebox/service", "service/index"],
      ["oncebox/webhooks", "webhooks/index"],
      ["oncebox/webhooks/stripe", "webhooks/presets/stripe"],
    ].map(([name, file]) => ({
      find: new RegExp(`^${name}$`),
      replacement: fileURLToPath(new URL(`src/${file}.ts`, import.meta.url)),
    })),
  },
  test: {
    globalSetup: "test/support/global-setup.ts",
    reporters: ["default", "./test/support/summary-reporter.ts"],
    // Stores and dispatchers without a logger write their warnings to the console.
    silent: "passed-only",
    // long, for a busy machine: a test that hangs still fails
    testTimeout: 180_000,
    // what a test waits for comes in its own time on a busy machine; it fails when it never comes
    expect: { poll: { timeout: 30_000 } },
    hookTimeout: 300_000,
    // whole files run beside each other; within a file one test at a time
    fileParallelism: true,
    // two also where there are only two cores: most tests wait for a database or for another process
    maxWorkers: Math.max(2, availableParallelism() - 1),
    // `npx vitest run PART` finds the file in whichever of them it is
    projects: [
      // loading the modules takes longer than most of these tests: files that one worker runs share them
      {
        extends: true,
        test: { name: "unit", include: unit, exclude: [...long, ...mocking], isolate: false },
      },
      {
        extends: true,
        test: {
          name: "rest",
          include: ["test/!(unit)/**/*.test.ts", ...mocking],
          exclude: [...long, ...nodes],
        },
      },
      { extends: true, test: { name: "long", include: long } },
      { extends: true, test: { name: "nodes", include: nodes } },
      {
        extends: true,
        test: {
          name: "network", // they install packages from the registry
          include: ["test/**/*.network.ts"],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
