// Builds what is published: ECMAScript modules, the same as CommonJS, and types that need no optional package.
//   tsx scripts/build-package.ts [FOLDER]      dist by default

import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { pageModule } from "../src/admin/render-page.js";
import { buildCommonJs } from "./build-commonjs.js";
import { letOptionalTypesBeMissing } from "./optional-types.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = resolve(root, process.argv[2] ?? "dist");
rmSync(folder, { recursive: true, force: true }); // a stale file would be published
const tsc = join(createRequire(import.meta.url).resolve("typescript/package.json"), "../bin/tsc");
execFileSync(process.execPath, [tsc, "-p", join(root, "tsconfig.build.json"), "--outDir", folder], {
  stdio: "inherit",
});
for (const name of ["render-page.js", "render-page.d.ts"]) rmSync(join(folder, "admin", name));
writeFileSync(join(folder, "admin/page-files.js"), await pageModule());
letOptionalTypesBeMissing(folder);
await buildCommonJs(folder);
