import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** Tests that start, kill or flood processes, package functions or walk through pages: `npm run test:long`. */
const long = [
  "test/browser/**/*.test.ts",
  "test/faults/**/*.test.ts",
  "test/runtime/**/*.test.ts",
  "test/infra/{aws-first-run,azure-deployment,init,linked-package,package-formats}.test.ts",
  "test/unit/docs/{examples,first-programs,frameworks,patterns,programs}.test.ts",
  "test/unit/messaging/mutated-*.test.ts",
];
/** They share the modules that one of them has loaded, which takes longer than most of them. */
const unit = ["test/unit/**/*.test.ts"];

export default defineConfig({
  // The examples import the package by its name; tests run them on its sources.
  resolve: {
    alias: [
      ["oncebox", "index"],
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
    testTimeout: 60_000,
    // what a test waits for comes in its own time on a busy machine; it fails when it never comes
    expect: { poll: { timeout: 30_000 } },
    hookTimeout: 120_000,
    // whole files run beside each other; within a file one test at a time
    fileParallelism: true,
    // two also where there are only two cores: most tests wait for a database or for another process
    maxWorkers: Math.max(2, availableParallelism() - 1),
    projects: [
      {
        extends: true,
        test: { name: "unit", include: unit, exclude: long, isolate: process.env.TM_ISO !== "0" },
      },
      {
        extends: true,
        test: { name: "database", include: ["test/**/*.test.ts"], exclude: [...long, ...unit] },
      },
      { extends: true, test: { name: "long", include: long } },
    ],
  },
});
