// Runs the unit and contract suites on the other supported Node versions. The npm package "node" has the binaries, so
// nothing needs to be installed beforehand.
import { spawnSync } from "node:child_process";

const versions = ["22", "24"];
const suites = process.argv.slice(2);
// SQLite is built into Node, and differs from version to version. The drivers of PostgreSQL and SQL Server are the same JavaScript
// on every Node: .github/workflows/ci.yml runs them on all.
const contract = ["test/contract/sqlite-memory.test.ts"];
// These read sources and documents, or repeat a check a hundred thousand times: the same on every Node.
const sameEverywhere = [
  "test/unit/docs/**",
  "test/unit/security/**",
  "test/unit/sqlserver-*.test.ts",
  "test/unit/**/{boundaries,guides,lock-file,mutated-*,python,readme,rendered-schema,types}.test.ts",
];
// The newest Node stands for the others: what differs between them is SQLite.
const what = (version) => {
  if (suites.length > 0) return suites;
  if (version !== versions.at(-1)) return contract;
  return ["test/unit", ...contract, ...sameEverywhere.map((files) => `--exclude=${files}`)];
};

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
  const run = spawnSync("npm", [...command, "node_modules/vitest/vitest.mjs", "run", ...what(version)], {
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (run.status !== 0) process.exit(run.status ?? 1);
}
