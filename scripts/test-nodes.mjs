// Runs the contract on SQLite, or the suites that are named, on the newest supported Node version. The npm package "node"
// has the binaries, so nothing needs to be installed beforehand.
import { spawnSync } from "node:child_process";

/** The newest. .github/workflows/ci.yml has those between. */
const versions = ["24"];
const suites = process.argv.slice(2);
// SQLite is built into Node, and differs from version to version. Everything else is the same JavaScript on every Node:
// .github/workflows/ci.yml runs all suites on all of them.
const what = suites.length > 0 ? suites : ["test/contract/sqlite-memory.test.ts"];

for (const version of versions) {
  const command = ["exec", "--yes", `--package=node@${version}`, "--", "node"];
  const printed = spawnSync("npm", [...command, "--version"], {
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (!printed.stdout?.startsWith(`v${version}.`)) {
    console.error(`node@${version} could not be run: ${printed.error ?? printed.stderr}`);
    process.exit(1);
  }
  console.log(`\nNode ${printed.stdout.trim()}`);
  const run = spawnSync("npm", [...command, "node_modules/vitest/vitest.mjs", "run", ...what], {
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (run.status !== 0) process.exit(run.status ?? 1);
}
