// Installs Amazon's Lambda runtime for the tests, in a folder of its own and without its install scripts, which would
// compile for minutes. npm runs this script (`dependencies`) after it has changed node_modules here, and never where this
// package is installed. Without a network it prints an error, and the tests that need the
// runtime report that it is missing.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../test/runtime/aws/lambda-runtime", import.meta.url));
const versionIn = (file, pick) =>
  existsSync(file) ? pick(JSON.parse(readFileSync(file, "utf8"))) : undefined;
const wanted = versionIn(`${folder}/package.json`, (manifest) => manifest.dependencies["aws-lambda-ric"]);
const installed = versionIn(
  `${folder}/node_modules/aws-lambda-ric/package.json`,
  (manifest) => manifest.version,
);

if (wanted !== undefined && installed !== wanted) {
  const { status, stderr, error } = spawnSync("npm", ["ci", "--prefix", folder, "--ignore-scripts"], {
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (status !== 0) console.error(`Amazon's Lambda runtime could not be installed: ${error ?? stderr}`);
}
