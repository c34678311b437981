import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleFunctions } from "../../../src/packaging/bundle-functions.js";
import type { BundledDatabase } from "../../../src/packaging/databases.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));

export interface BundleFolder {
  readonly folder: string;
  remove(): Promise<void>;
}

/**
 * Bundles the functions of an app, the test app by default, into a folder where this project's packages are not found.
 * `provided` names packages that the runtime brings (the AWS SDK) or that are deployed with the bundles.
 */
export async function bundleTestApp(
  database: BundledDatabase | readonly BundledDatabase[],
  provided: readonly string[] = [],
  app = fileURLToPath(new URL("test-app.ts", import.meta.url)),
): Promise<BundleFolder> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-lambda-"));
  await bundleFunctions({ cloud: "aws", database, app, outFolder: folder });
  for (const name of provided) {
    const link = join(folder, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, "node_modules", name), link, "junction");
  }
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** Node has one from 22.13 on. */
export const sqlitePackages = ["@photostructure/sqlite"];
