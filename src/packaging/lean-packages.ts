import type { Plugin } from "esbuild";
import { isOncebox } from "./own-package.js";

/**
 * Leaves out parts of pg that a function never uses: the native library, passwords from a file in the home folder, and
 * the detection of Cloudflare. That one creates a Response, which loads Node's whole fetch: 18 ms of a cold start on Node 20.
 */
export const leanPg: Plugin = {
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

/**
 * tedious requires Microsoft Entra's packages when it is loaded. They are half of its size, and most apps do not use them.
 * Here each package is required when one of its exports is first used, or its use is an error that names --entra. For
 * PostgreSQL this package imports what it needs, in a file that is then left out.
 */
export const entraWhenUsed = (entra: boolean, folder: string): Plugin => ({
  name: "Entra when used",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^@azure\/(identity|keyvault-keys)$/ }, ({ path, importer, namespace }) =>
      namespace === "entra" || !/[\\/]tedious[\\/]/.test(importer) ? undefined : { path, namespace: "entra" },
    );
    onLoad({ filter: /.*/, namespace: "entra" }, ({ path }) => {
      const get = entra
        ? `(_, name) => require(${JSON.stringify(path)})[name]`
        : `() => { throw new Error(${JSON.stringify(without(path))}); }`;
      return { contents: `module.exports = new Proxy({}, { get: ${get} });`, resolveDir: folder };
    });
    onLoad({ filter: /[\\/]sql[\\/]postgres[\\/]entra\.[jt]s$/ }, ({ path }) =>
      entra || !isOncebox(path) ? undefined : { contents: postgresWithoutEntra },
    );
  },
});

const without = (name: string): string => `This bundle was built without ${name}. Build it with --entra.`;

const postgresWithoutEntra = `export const connectionSettings = (url) => {
  if (/[?&]authentication=entra(&|$)/.test(url)) throw new Error(${JSON.stringify(without("@azure/identity"))});
  return url === undefined ? {} : { connectionString: url };
};`;
