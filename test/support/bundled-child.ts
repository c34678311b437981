import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export interface BundledChild {
  /** For `node`, with no loader. */
  readonly path: string;
  remove(): Promise<void>;
}

const cache = fileURLToPath(new URL("../../node_modules/.cache", import.meta.url));

/** A TypeScript file as one of JavaScript, for tests that start it many times: it then starts in a fraction of the time. */
export async function bundleChild(file: string): Promise<BundledChild> {
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, "oncebox-child-")); // inside node_modules, to find the packages
  const path = join(folder, "child.mjs");
  await build({
    entryPoints: [file],
    outfile: path,
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    logLevel: "error",
  });
  return { path, remove: () => rm(folder, { recursive: true, force: true }) };
}
