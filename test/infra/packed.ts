import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "./aws-stack.js";

export const run = promisify(execFile);
const require = createRequire(import.meta.url);

/** From what is on this machine first; the registry only for what is not. */
export const npm = (args: readonly string[], cwd: string) =>
  run("npm", ["--prefer-offline", "--no-audit", "--no-fund", ...args], {
    cwd,
    shell: process.platform === "win32",
    maxBuffer: 1e8,
  });

export interface PackedPackage {
  readonly tarball: string;
  /** Runs the command line that is in it. */
  cli(args: readonly string[], cwd: string): Promise<unknown>;
  remove(): Promise<void>;
}

/**
 * The package as it would be published. Built beside the project's own dist folder, which others may be building or
 * using at this moment.
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
  // Its one dependency; installing it by npm alone would take longer than all the rest.
  await mkdir(join(folder, "node_modules"));
  await symlink(join(root, "node_modules/zod"), join(folder, "node_modules/zod"), "junction");
  return {
    tarball: join(folder, tarball!),
    cli: (args, cwd) => run(process.execPath, [join(folder, "dist/cli/main.js"), ...args], { cwd }),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
