import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { unzipSync } from "fflate";
import { inject } from "vitest";
import { root } from "../support/markdown.js";

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
  /** The package as npm would unpack it, with its one dependency beside it. */
  readonly folder: string;
  /** Runs the package's command line. */
  cli(args: readonly string[], cwd: string): Promise<unknown>;
  remove(): Promise<void>;
}

/** The package as it would be published. It is packed once for all tests of a run; each has a folder of its own. */
export async function packedPackage(): Promise<PackedPackage> {
  const tarball = await packedOnce(inject("packageFolder"));
  const own = await mkdtemp(join(tmpdir(), "oncebox-packed-"));
  await run("tar", ["-xzf", tarball, "-C", own]);
  const folder = join(own, "package");
  // Linked, because installing this one dependency with npm would take longer than the rest of the test.
  await mkdir(join(folder, "node_modules"));
  await symlink(join(root, "node_modules/zod"), join(folder, "node_modules/zod"), "junction");
  return {
    tarball,
    folder,
    cli: (args, cwd) => run(process.execPath, [join(folder, "dist/cli/main.js"), ...args], { cwd }),
    remove: () => rm(own, { recursive: true, force: true }),
  };
}

/** The first test makes the tarball. The others, in other processes, wait for it. */
async function packedOnce(shared: string): Promise<string> {
  const done = join(shared, "oncebox.tgz");
  const isFirst = await mkdir(join(shared, "building")).then(
    () => true,
    () => false,
  );
  if (isFirst) await pack(join(shared, "building"), done);
  while (!(await readdir(shared)).includes("oncebox.tgz")) {
    if ((await readdir(shared)).includes("failed")) throw new Error("The package could not be built.");
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return done;
}

/** Builds outside of the project's dist folder, which other tests may be building or using at the same time. */
async function pack(folder: string, tarball: string): Promise<void> {
  try {
    const { files } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { files: string[] };
    for (const name of ["package.json", "README.md", "LICENSE", ...files.filter((one) => one !== "dist")]) {
      await cp(join(root, name), join(folder, name), { recursive: true });
    }
    const tsx = require.resolve("tsx/cli");
    await run(process.execPath, [tsx, "scripts/build-package.ts", join(folder, "dist")], { cwd: root });
    await npm(["pack", "--ignore-scripts"], folder);
    const [packed] = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
    await rename(join(folder, packed!), tarball);
  } catch (error) {
    await mkdir(join(tarball, "../failed"));
    throw error;
  }
}

/** Unpacks an archive into a folder without node_modules above it, so that only the archive's files can be imported. */
export async function unpacked(archive: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-unpacked-"));
  for (const [name, bytes] of Object.entries(unzipSync(await readFile(archive)))) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), bytes);
  }
  return folder;
}
