import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";
import { InvalidArgumentError } from "../errors.js";
import { lazyEntryPoints, lazyWebhooks, presetsFile, webhooksFolder, writePresets } from "./lazy-webhooks.js";
import { entraWhenUsed, leanBuiltins, leanMiddy, leanPg } from "./lean-packages.js";
import {
  type BundledDatabase,
  isSource,
  onlyDatabases,
  ownPackage,
  pageAsTexts,
  root,
} from "./own-package.js";

/** The functions that not every app has, by their options. */
type OptionalFunction = "service" | "admin" | "recover" | "messaging";

interface Cloud {
  /** The files in `functions/<cloud>` to bundle. */
  readonly entryPoints: RegExp;
  /** Those of them that are bundled only when they are asked for. */
  readonly optional?: Readonly<Record<OptionalFunction, readonly string[]>>;
  /** Packages that the cloud's runtime provides. */
  readonly external: readonly string[];
  /** Puts modules that are loaded by `import()` into files of their own. */
  readonly splitting?: boolean;
}

export const clouds = {
  aws: {
    // Tests, declarations, hidden files and names that would leave the folder of an archive are no functions.
    entryPoints: /^\w[\w-]*\.[cm]?[jt]s$/,
    optional: {
      service: ["inbox-service"],
      admin: ["admin"],
      recover: ["recover-github"],
      messaging: ["message-receive", "message-dispatch", "message-maintain"],
    },
    // nodejs20.x, 22.x and 24.x have every client of the AWS SDK v3. A bundle with one would be 350 KB larger.
    external: ["@aws-sdk/*"],
  },
  azure: {
    // One process runs all functions of a function app. In one file they share the app and its connection pool. An app
    // that has an inbox service, a diagnostics API or a service for messages registers it there.
    entryPoints: /^main\.[cm]?[jt]s$/,
    external: ["@azure/functions-core"],
    // Azure provides no SDK. Apps without queues, Key Vault or Entra do not load those files and start in half the time.
    splitting: true,
  },
} as const satisfies Record<string, Cloud>;
type CloudName = keyof typeof clouds;

export interface BundleOptions {
  readonly cloud: CloudName;
  /** One database, or several for tenants on different ones. */
  readonly database: BundledDatabase | readonly BundledDatabase[];
  /** The folder with `functions/`, and for Azure with `host.json`. This package's own by default. */
  readonly folder?: string;
  /** The file with the app's definition, instead of the `../app.js` that the functions import. */
  readonly app?: string;
  readonly outFolder: string;
  /** On AWS: bundles the function of the inbox service as well, `functions/aws/inbox-service.ts`. */
  readonly service?: boolean;
  /** On AWS: bundles the function of the diagnostics API as well, `functions/aws/admin.ts`. */
  readonly admin?: boolean;
  /** On AWS: bundles the function that asks GitHub for failed deliveries as well, `functions/aws/recover-github.ts`. */
  readonly recover?: boolean;
  /** On AWS: bundles the functions of a service's messages as well, `functions/aws/message-*.ts`. */
  readonly messaging?: boolean;
  /** Includes the packages that sign in to a database with Microsoft Entra. They run only when they are used. */
  readonly entra?: boolean;
}

/** Writes one minified ES module per function, or per function app on Azure, with its source map. */
export async function bundleFunctions(options: BundleOptions): Promise<Metafile> {
  const { external, splitting = false }: Cloud = clouds[options.cloud];
  const { folder = root } = options;
  const metafile = await bundle({
    ...options,
    entryPoints: await functionFiles(join(folder, "functions", options.cloud), options),
    external,
    splitting,
  });
  if (options.cloud === "azure") await writeFunctionApp(folder, options.outFolder, [options.database].flat());
  else await copyUsersScripts(folder, options);
  return metafile;
}

/** The function that migrates makes the functions' user by the project's own script. */
async function copyUsersScripts(folder: string, { database, outFolder }: BundleOptions): Promise<void> {
  if (!existsSync(join(outFolder, "migrate.mjs"))) return;
  for (const name of [database].flat()) {
    const script = join(folder, "infra/sql", `users-${name}.sql`);
    if (existsSync(script)) await copyFile(script, join(outFolder, `migrate.users-${name}.sql`));
  }
}

async function functionFiles(functions: string, options: BundleOptions): Promise<string[]> {
  const { entryPoints, optional }: Cloud = clouds[options.cloud];
  if (!existsSync(functions))
    throw new InvalidArgumentError(
      `There is no folder ${functions}. oncebox init ${options.cloud} makes a project with one.`,
    );
  let files = (await readdir(functions)).filter((name) => entryPoints.test(name)).sort();
  for (const [option, names] of Object.entries(optional ?? {})) {
    const isOf = (name: string) => (file: string) => new RegExp(`^${name}\\.[cm]?[jt]s$`).test(file);
    const isAsked = options[option as OptionalFunction] ?? false;
    const missing = names.find((name) => !files.some(isOf(name)));
    if (isAsked && missing !== undefined) {
      throw new InvalidArgumentError(
        `--${option} is asked for, and ${functions} has no ${missing}.ts. oncebox init ${options.cloud} --${option} writes one.`,
      );
    }
    if (!isAsked) files = files.filter((file) => !names.some((name) => isOf(name)(file)));
  }
  return files.map((name) => join(functions, name));
}

interface BundleSettings extends Omit<BundleOptions, "cloud" | OptionalFunction> {
  readonly entryPoints: readonly string[];
  readonly external: readonly string[];
  readonly splitting?: boolean;
}

export async function bundle(settings: BundleSettings): Promise<Metafile> {
  const { outFolder, database, app, folder = root, entra = false, splitting = false } = settings;
  await mkdir(outFolder, { recursive: true });
  if (splitting) await rm(join(outFolder, lazyFolder), { recursive: true, force: true }); // their names change with their content
  const { metafile } = await build({
    ...esbuildOptions,
    absWorkingDir: folder,
    entryPoints: [...settings.entryPoints],
    outdir: outFolder,
    splitting,
    // It loads its binary from its own folder.
    external: [...settings.external, "@photostructure/sqlite"],
    plugins: [
      lazyWebhooks(splitting),
      ...(isSource ? [ownPackage, pageAsTexts] : []),
      onlyDatabases([database].flat()),
      leanPg,
      leanMiddy,
      leanBuiltins,
      entraWhenUsed(entra, folder),
      ...(app === undefined ? [] : [appFrom(app, folder)]),
    ],
  });
  if (!splitting && usesLazyWebhooks(metafile))
    await bundleLazyWebhooks(folder, join(outFolder, webhooksFolder));
  return metafile;
}

const usesLazyWebhooks = ({ outputs }: Metafile): boolean => Object.values(outputs).some(importsLazyWebhooks);

/** Whether a function needs the folder of presets beside it. Presets are loaded by names that are not known here. */
export const importsLazyWebhooks = ({ imports, inputs }: Metafile["outputs"][string]): boolean =>
  imports.some(({ path, external }) => external === true && path.startsWith(`./${webhooksFolder}/`)) ||
  Object.entries(inputs).some(([file, { bytesInOutput }]) => bytesInOutput > 0 && presetsFile.test(file));

async function bundleLazyWebhooks(folder: string, outdir: string): Promise<void> {
  const { entryPoints, plugin } = lazyEntryPoints();
  await build({
    ...esbuildOptions,
    absWorkingDir: folder,
    entryPoints,
    outdir,
    sourcemap: false,
    plugins: [plugin],
  });
  await writePresets(outdir);
}

const lazyFolder = "lazy";

export const esbuildOptions = {
  bundle: true,
  platform: "node",
  target: "node20",
  format: "esm",
  outExtension: { ".js": ".mjs" },
  chunkNames: `${lazyFolder}/[name]-[hash]`,
  minify: true,
  sourcemap: "linked",
  legalComments: "external",
  metafile: true,
  logLevel: "warning",
  // Drivers are CommonJS and call `require` for Node's own modules.
  banner: {
    js: 'import { createRequire as oncebox } from "node:module"; const require = oncebox(import.meta.url), onceboxNow = () => Number(process.hrtime.bigint()) / 1e6;',
  },
  // The same clock. The first use of `performance` loads all of node:perf_hooks, 0.6 ms of a cold start.
  define: { "performance.now": "onceboxNow" },
} as const satisfies BuildOptions;

/** Replaces the example app by the one that `--app` names. */
const appFrom = (app: string, folder: string): Plugin => ({
  name: "app",
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.\/app\.js$/ }, ({ importer }) =>
      importer.startsWith(join(folder, "functions")) ? { path: app } : undefined,
    );
  },
});

const sqlFolder = "infra/sql";

/** What the migration function runs after a migration. An app that runs them by hand may have deleted them. */
async function userScripts(
  folder: string,
  databases: readonly BundledDatabase[],
): Promise<readonly string[]> {
  const wanted = databases.map((database) => `users-${database}.sql`);
  return (await readdir(join(folder, sqlFolder)).catch(() => [])).filter((name) => wanted.includes(name));
}

/** Writes the files that the Functions host needs besides the bundle. The folder is then a complete function app. */
export async function writeFunctionApp(
  folder: string,
  outFolder: string,
  databases: readonly BundledDatabase[],
): Promise<void> {
  const manifest = { name: "oncebox-functions", private: true, type: "module", main: "main.mjs" };
  await writeFile(join(outFolder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  await copyFile(join(folder, "host.json"), join(outFolder, "host.json"));
  for (const script of await userScripts(folder, databases)) {
    await copyFile(join(folder, sqlFolder, script), join(outFolder, script));
  }
}
