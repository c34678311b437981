import { dirname } from "node:path";
import type { Plugin } from "esbuild";
import { type BundledDatabase, databases } from "./databases.js";
import { isOncebox } from "./own-package.js";

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
