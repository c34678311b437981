// Runs the test of killed SQS consumers at full size: 5,000 messages.
import { spawnSync } from "node:child_process";

const { status } = spawnSync(
  process.execPath,
  ["node_modules/vitest/vitest.mjs", "run", "test/runtime/queues/killed-consumers.test.ts"],
  { stdio: "inherit", env: { ...process.env, ONCEBOX_TEST_SQS_MESSAGES: "5000" } },
);
process.exit(status ?? 1);
