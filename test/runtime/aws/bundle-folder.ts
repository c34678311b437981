import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Metafile } from "esbuild";
import { type BundleOptions, bundle, bundleFunctions } from "../../../src/packaging/bundle-functions.js";
import type { BundledDatabase } from "../../../src/packaging/own-package.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));

export interface BundleFolder {
  readonly folder: string;
  readonly metafile: Metafile;
  remove(): Promise<void>;
}

/**
 * Bundles the functions of an app, the test app by default, into a folder where this project's packages are not found.
 * `provided` names packages that the runtime brings (the AWS SDK) or that are deployed with the bundles.
 */
export function bundleTestApp(
  database: BundledDatabase | readonly BundledDatabase[],
  provided: readonly string[] = [],
  app = fileURLToPath(new URL("test-app.ts", import.meta.url)),
  asked: Pick<BundleOptions, "messaging"> = {},
): Promise<BundleFolder> {
  return bundledFolder(provided, (outFolder) =>
    bundleFunctions({ cloud: "aws", database, app, outFolder, ...asked }),
  );
}

/** Bundles the functions of messages, of test/runtime/message-app. */
export function bundleMessageApp(
  database: BundledDatabase,
  provided: readonly string[] = [],
): Promise<BundleFolder> {
  const entryPoints = ["receive", "dispatch", "maintain"].map((name) =>
    fileURLToPath(new URL(`../message-app/aws/${name}.ts`, import.meta.url)),
  );
  return bundledFolder(provided, (outFolder) =>
    bundle({ database, entryPoints, external: ["@aws-sdk/*", "@grpc/*"], outFolder }),
  );
}

/** Bundles the function of the inbox service, of test/runtime/inbox-service-app.ts. */
export const bundleServiceApp = (database: BundledDatabase): Promise<BundleFolder> =>
  bundleOne(database, "inbox-service", "inbox-service-app.ts");

/** Bundles the function of the diagnostics API, of test/runtime/admin-app.ts. */
export const bundleAdminApp = (database: BundledDatabase): Promise<BundleFolder> =>
  bundleOne(database, "admin", "admin-app.ts");

function bundleOne(database: BundledDatabase, name: string, appFile: string): Promise<BundleFolder> {
  const app = fileURLToPath(new URL(`../${appFile}`, import.meta.url));
  const entryPoints = [join(root, `functions/aws/${name}.ts`)];
  return bundledFolder([], (outFolder) =>
    bundle({ database, app, entryPoints, external: ["@aws-sdk/*"], outFolder }),
  );
}

async function bundledFolder(
  provided: readonly string[],
  write: (folder: string) => Promise<Metafile>,
): Promise<BundleFolder> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-lambda-"));
  const metafile = await write(folder);
  for (const name of provided) {
    const link = join(folder, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, "node_modules", name), link, "junction");
  }
  return { folder, metafile, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** Node has one from 22.13 on. */
export const sqlitePackages = ["@photostructure/sqlite"];
