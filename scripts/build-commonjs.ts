import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build } from "esbuild";
import { filesUnder } from "./files-under.js";

/** Not for `require`: the command line, and what it packages functions with. They find their own files by `import.meta`. */
const onlyModules = ["cli", "packaging", "cjs"];

/**
 * An `import()` of a package, as esbuild writes it for `require`. A user's bundler fails at a package that is not installed,
 * unless the `require` is in a `try`.
 */
const lateRequire = /(Promise\.resolve\(\)\.then\(\(\) => )(__toESM\(require\("[^."][^"]*"\)(?:, 1)?\))\)/g;

/**
 * Makes a copy of the modules in `cjs/` that `require` can load. Each file stays a file: what is loaded only when it is needed
 * still is. `import()` becomes `require`, because Jest has no `import()` in CommonJS.
 */
export async function buildCommonJs(folder: string): Promise<void> {
  const target = join(folder, "cjs");
  const isWanted = (file: string) => !onlyModules.includes(relative(folder, file).split(/[\\/]/)[0]!);
  await build({
    entryPoints: filesUnder(folder, ".js").filter(isWanted),
    outbase: folder,
    outdir: target,
    format: "cjs",
    platform: "node",
    target: "node20",
    supported: { "dynamic-import": false },
    define: { "import.meta.filename": "__filename" },
    logLevel: "warning",
  });
  for (const file of filesUnder(target, ".js"))
    writeFileSync(
      file,
      readFileSync(file, "utf8").replace(
        lateRequire,
        "$1{ try { return $2; } catch (error) { throw error; } })",
      ),
    );
  for (const file of filesUnder(folder, ".d.ts").filter(isWanted)) {
    const copy = join(target, relative(folder, file));
    mkdirSync(dirname(copy), { recursive: true });
    copyFileSync(file, copy);
  }
  writeFileSync(join(target, "package.json"), '{ "type": "commonjs" }\n');
}
