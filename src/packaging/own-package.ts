import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
import { InvalidArgumentError } from "../errors.js";

/** The code of this package: `src` in the repository, `dist` in the installed package. */
export const code = fileURLToPath(new URL("..", import.meta.url));
export const isSource = basename(code) === "src";
export const root = join(code, "..");

/** Whether the file belongs to this package, whatever its folder is called, or to the copy that the app has installed. */
export const isOncebox = (path: string): boolean =>
  path.startsWith(code) || /[\\/]oncebox[\\/]dist[\\/]/.test(path);

/** Resolves `import … from "oncebox"` and `"oncebox/aws"` to the sources in the repository, not to the last build. */
export const ownPackage: Plugin = {
  name: "own package",
  setup({ onResolve }) {
    onResolve({ filter: /^oncebox(\/[\w-]+|\/webhooks\/\w+)?$/ }, ({ path }) => ({
      path: join(root, sourceOf(path)),
    }));
  },
};

/** In a clone, gives bundles the admin page as texts. The installed package has them already. */
export const pageAsTexts: Plugin = {
  name: "page as texts",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]admin[\\/]page-files\.ts$/ }, async ({ path }) => {
      if (!isOncebox(path)) return undefined;
      const { pageModule } = await import("../admin/render-page.js"); // only a clone has it
      return { contents: await pageModule() };
    });
  },
};

/** The source of a subpath, as the package's own exports name it. */
function sourceOf(path: string): string {
  const { exports } = createRequire(import.meta.url)("../../package.json") as PackageJson;
  const preset = /^oncebox\/webhooks\/(\w+)$/.exec(path)?.[1];
  const subpath = preset === undefined ? path.replace("oncebox", ".") : "./webhooks/*";
  const file = exports[subpath]?.import.default;
  if (file === undefined) throw new InvalidArgumentError(`oncebox has no subpath "${path}".`);
  return file
    .replace("./dist/", "src/")
    .replace(/\.js$/, ".ts")
    .replace("*", preset ?? "");
}

interface PackageJson {
  readonly exports: Readonly<Record<string, { readonly import: { readonly default: string } }>>;
}

export const databases = ["sqlserver", "postgres", "sqlite"] as const;
export type BundledDatabase = (typeof databases)[number];

/** The files that can load all dialects, and their exports. */
const openers = {
  "config/database-openers": {
    list: "databaseOpeners",
    module: "index",
    names: { sqlserver: "openSqlServer", postgres: "openPostgres", sqlite: "openSqlite" },
  },
  "config/receiving-openers": {
    list: "receivingOpeners",
    module: "open",
    names: { sqlserver: "connectSqlServer", postgres: "connectPostgres", sqlite: "connectSqlite" },
  },
  "operators/operator-dialects": {
    list: "operatorDialects",
    module: "operators",
    names: { sqlserver: "sqlServerOperators", postgres: "postgresOperators", sqlite: "sqliteOperators" },
  },
} as const;

/**
 * Replaces the files that can load all dialects. One chosen dialect is imported statically, because esbuild drops less of
 * a module that is loaded by `import()`. Several chosen dialects are loaded at their first use. Every other dialect becomes
 * an error.
 */
export const onlyDatabases = (chosen: readonly BundledDatabase[]): Plugin => ({
  name: "only databases",
  setup({ onLoad }) {
    for (const [file, { list, module, names }] of Object.entries(openers)) {
      const filter = new RegExp(`[\\\\/]${file.replace("/", "[\\\\/]")}\\.[jt]s$`);
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
