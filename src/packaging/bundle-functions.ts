import { mkdir, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";
import { writeFunctionApp } from "./azure-function-app.js";

export const databases = ["sqlserver", "postgres", "sqlite"] as const;
export type BundledDatabase = (typeof databases)[number];

/** This package's own code: `src` in its repository, `dist` where it is installed. */
const code = fileURLToPath(new URL("..", import.meta.url));
const isSource = basename(code) === "src";
const root = join(code, "..");

interface Cloud {
  /** Its files in `functions/`, each with functions of its own. */
  readonly entryPoints: RegExp;
  /** What the cloud's runtime brings along. */
  readonly external: readonly string[];
  /** Put what is loaded lazily into files of its own. */
  readonly splitting?: boolean;
}

export const clouds = {
  aws: {
    entryPoints: /\.[cm]?[jt]s$/,
    // nodejs20.x, 22.x and 24.x have every client of the AWS SDK v3; a bundle with one would be 350 KB larger.
    external: ["@aws-sdk/*"],
  },
  azure: {
    // One process runs all of a function app's functions, and loads all its files: in one they share app and pool.
    entryPoints: /^main\.[cm]?[jt]s$/,
    external: ["@azure/functions-core"],
    // Azure brings no SDK along; whoever uses queues, Key Vault or Entra reads that file, the others start in half the time.
    splitting: true,
  },
} as const satisfies Record<string, Cloud>;
export type CloudName = keyof typeof clouds;

export interface BundleOptions {
  readonly cloud: CloudName;
  /** One, or several for tenants of different ones. */
  readonly database: BundledDatabase | readonly BundledDatabase[];
  /** Where `functions/` is; for Azure `host.json`, too. This package's own by default. */
  readonly folder?: string;
  /** The file with the app's definition, instead of the one that the functions import. */
  readonly app?: string;
  readonly outFolder: string;
  /** Keep the packages for Microsoft Entra in a SQL Server bundle; they are run only when they are used. */
  readonly entra?: boolean;
}

/** One minified ES module per function, or per function app on Azure, its source map beside it. */
export async function bundleFunctions(options: BundleOptions): Promise<Metafile> {
  const { entryPoints, external, splitting = false }: Cloud = clouds[options.cloud];
  const { folder = root } = options;
  const functions = join(folder, "functions", options.cloud);
  const files = (await readdir(functions)).filter((name) => entryPoints.test(name)).sort();
  const metafile = await bundle({
    ...options,
    entryPoints: files.map((name) => join(functions, name)),
    external,
    splitting,
  });
  if (options.cloud === "azure") await writeFunctionApp(folder, options.outFolder);
  return metafile;
}

export interface BundleSettings extends Omit<BundleOptions, "cloud"> {
  readonly entryPoints: readonly string[];
  readonly external: readonly string[];
  readonly splitting?: boolean;
}

export async function bundle(settings: BundleSettings): Promise<Metafile> {
  const { outFolder, database, app, folder = root, entra = false, splitting = false } = settings;
  await mkdir(outFolder, { recursive: true });
  if (splitting) await rm(join(outFolder, lazyFolder), { recursive: true, force: true }); // the names change with the content
  const { metafile } = await build({
    ...esbuildOptions,
    absWorkingDir: folder,
    entryPoints: [...settings.entryPoints],
    outdir: outFolder,
    splitting,
    // It finds its binary beside itself.
    external: [...settings.external, "@photostructure/sqlite"],
    plugins: [
      ...(isSource ? [ownPackage] : []),
      onlyDatabases([database].flat()),
      leanPg,
      leanMiddy,
      entraWhenUsed(entra, folder),
      ...(app === undefined ? [] : [appFrom(app, folder)]),
    ],
  });
  return metafile;
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
  // Drivers are CommonJS and require Node's own modules.
  banner: {
    js: 'import { createRequire as oncebox } from "node:module"; const require = oncebox(import.meta.url);',
  },
} as const satisfies BuildOptions;

/** `--app` takes the place of the example. */
const appFrom = (app: string, folder: string): Plugin => ({
  name: "app",
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.\/app\.js$/ }, ({ importer }) =>
      importer.startsWith(join(folder, "functions")) ? { path: app } : undefined,
    );
  },
});

/** An app says `import … from "oncebox/app"`; here that is the source, not what was last built of it. */
const ownPackage: Plugin = {
  name: "own package",
  setup({ onResolve }) {
    onResolve({ filter: /^oncebox(\/\w+)?$/ }, ({ path }) => ({ path: join(root, sourceOf(path)) }));
  },
};

function sourceOf(path: string): string {
  const name = path === "oncebox" ? "" : basename(path);
  if (name === "") return "src/index.ts";
  if ((databases as readonly string[]).includes(name)) return `src/sql/${name}/index.ts`;
  return name === "aws" || name === "azure" ? `src/adapters/${name}/index.ts` : `src/${name}/index.ts`;
}

/**
 * One dialect is loaded at once: what is loaded later cannot be made as small. Of several, each is when it is first
 * asked for. The others become a sentence.
 */
const onlyDatabases = (chosen: readonly BundledDatabase[]): Plugin => ({
  name: "only databases",
  setup({ onLoad }) {
    for (const [file, { list, module, names }] of Object.entries(openers)) {
      const filter = new RegExp(`[\\\\/]config[\\\\/]${file}\\.[jt]s$`);
      const moduleOf = (name: BundledDatabase) => `"../sql/${name}/${module}.js"`;
      const opener = (name: BundledDatabase): string => {
        if (!chosen.includes(name)) return `refuse("${name}")`;
        return chosen.length === 1
          ? `async () => ${names[name]}`
          : `async () => (await import(${moduleOf(name)})).${names[name]}`;
      };
      const [only, ...more] = chosen;
      const contents = `import { InvalidOperationError } from "../errors.js";
${more.length === 0 ? `import { ${names[only!]} } from ${moduleOf(only!)};` : ""}
const refuse = (name) => async () => {
  throw new InvalidOperationError(\`This bundle was built for ${chosen.join(" and ")}. Build it with --database \${name} for this database.\`);
};
export const ${list} = {
  ${databases.map((name) => `${name}: ${opener(name)}`).join(",\n  ")},
};`;
      onLoad({ filter }, ({ path }) =>
        isOncebox(path) ? { contents, resolveDir: dirname(path) } : undefined,
      );
    }
  },
});

/** This package, whatever its folder is called where it is linked; or the app's own, when that is another. */
const isOncebox = (path: string): boolean => path.startsWith(code) || /[\\/]oncebox[\\/]dist[\\/]/.test(path);

/** The files in `config` that know all dialects, and what they export. */
const openers = {
  "database-openers": {
    list: "databaseOpeners",
    module: "index",
    names: { sqlserver: "openSqlServer", postgres: "openPostgres", sqlite: "openSqlite" },
  },
  "receiving-openers": {
    list: "receivingOpeners",
    module: "open",
    names: { sqlserver: "connectSqlServer", postgres: "connectPostgres", sqlite: "connectSqlite" },
  },
} as const;

/**
 * What pg can do and a function never does: use a native library, read passwords from a file in a home folder, and ask
 * whether it is at Cloudflare by making a Response, which loads all of Node's fetch (on Node 20).
 */
const leanPg: Plugin = {
  name: "lean pg",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(\.\/native|\.\/stream|pgpass)$/ }, ({ path, importer }) =>
      /[\\/]pg[\\/]lib[\\/]\w+\.js$/.test(importer) ? { path, namespace: "lean-pg" } : undefined,
    );
    onLoad({ filter: /.*/, namespace: "lean-pg" }, ({ path }) => ({ contents: leanPgFiles[path]! }));
  },
};

const leanPgFiles: Readonly<Record<string, string>> = {
  "./native": 'throw new Error("This bundle was built without pg-native.");',
  "./stream": `exports.getStream = () => new (require("node:net").Socket)();
exports.getSecureStream = (options) => require("node:tls").connect(options);`,
  pgpass: "module.exports = (_, found) => found(undefined);",
};

/** middy loads Node's streams for answers that are streamed; these functions stream none, and load them if they do. */
const leanMiddy: Plugin = {
  name: "lean middy",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:(stream|timers)/ }, ({ path, importer }) =>
      /[\\/]@middy[\\/]core[\\/]/.test(importer) ? { path, namespace: "lean-middy" } : undefined,
    );
    onLoad({ filter: /.*/, namespace: "lean-middy" }, ({ path }) => ({ contents: leanMiddyFiles[path]! }));
  },
};

const leanMiddyFiles: Readonly<Record<string, string>> = {
  "node:stream": `export const Readable = { from: (text) => require("node:stream").Readable.from(text) };`,
  "node:stream/promises": `export const pipeline = (from, to) => require("node:stream/promises").pipeline(from, to);`,
  "node:stream/web": `export const ReadableStream = {
  [Symbol.hasInstance]: (value) => value instanceof globalThis.ReadableStream,
};`,
  "node:timers": "export const { setTimeout } = globalThis;",
};

/**
 * tedious requires Microsoft Entra's packages when it is loaded, half of its weight, for sign-ins that most do without.
 * Here each is required when one of its exports is first asked for; or never, with a sentence that says how.
 */
const entraWhenUsed = (entra: boolean, folder: string): Plugin => ({
  name: "Entra when used",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^@azure\/(identity|keyvault-keys)$/ }, ({ path, importer, namespace }) =>
      namespace === "entra" || !/[\\/]tedious[\\/]/.test(importer) ? undefined : { path, namespace: "entra" },
    );
    onLoad({ filter: /.*/, namespace: "entra" }, ({ path }) => {
      const message = `This bundle was built without ${path}. Build it with --entra.`;
      const get = entra
        ? `(_, name) => require(${JSON.stringify(path)})[name]`
        : `() => { throw new Error(${JSON.stringify(message)}); }`;
      return { contents: `module.exports = new Proxy({}, { get: ${get} });`, resolveDir: folder };
    });
  },
});
