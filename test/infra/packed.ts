import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "./aws-stack.js";

export const run = promisify(execFile);
const require = createRequire(import.meta.url);

/** Prefers npm's cache to the registry. */
export const npm = (args: readonly string[], cwd: string) =>
  run("npm", ["--prefer-offline", "--no-audit", "--no-fund", ...args], {
    cwd,
    shell: process.platform === "win32",
    maxBuffer: 1e8,
  });

export interface PackedPackage {
  readonly tarball: string;
  /** Runs the package's command line. */
  cli(args: readonly string[], cwd: string): Promise<unknown>;
  remove(): Promise<void>;
}

/**
 * Packs the package as it would be published. Builds it outside of the project's dist folder, which other tests may be
 * building or using at the same time.
 */
export async function packedPackage(): Promise<PackedPackage> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-packed-"));
  const { files } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { files: string[] };
  for (const name of ["package.json", "README.md", "LICENSE", ...files.filter((one) => one !== "dist")]) {
    await cp(join(root, name), join(folder, name), { recursive: true });
  }
  const tsc = join(require.resolve("typescript/package.json"), "../bin/tsc");
  await run(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", join(folder, "dist")], {
    cwd: root,
  });
  await npm(["pack", "--ignore-scripts"], folder);
  const [tarball] = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
  // Linked, because installing this one dependency with npm would take longer than the rest of the test.
  await mkdir(join(folder, "node_modules"));
  await symlink(join(root, "node_modules/zod"), join(folder, "node_modules/zod"), "junction");
  return {
    tarball: join(folder, tarball!),
    cli: (args, cwd) => run(process.execPath, [join(folder, "dist/cli/main.js"), ...args], { cwd }),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
