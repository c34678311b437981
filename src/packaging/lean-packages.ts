import { createRequire } from "node:module";
import type { Plugin, PluginBuild } from "esbuild";
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
    loadWhenUsed({ onResolve, onLoad });
  },
};

/** pg loads DNS and Web Crypto with the rest. An address needs no DNS, and a token or a certificate no Web Crypto. */
function loadWhenUsed({ onResolve, onLoad }: Pick<PluginBuild, "onResolve" | "onLoad">): void {
  onResolve({ filter: /^(dns|\.\/(crypto\/)?utils)$/ }, ({ path, importer, namespace, resolveDir }) => {
    const file = importer.replaceAll("\\", "/");
    const isLate = requiredLate.some(([by, required]) => file.endsWith(`/pg/lib/${by}`) && path === required);
    return namespace === "file" && isLate
      ? { path, namespace: "pg-when-used", pluginData: resolveDir }
      : undefined;
  });
  onLoad({ filter: /.*/, namespace: "pg-when-used" }, ({ path, pluginData }) => ({
    contents: `module.exports = new Proxy({}, { get: (_, name) => require(${JSON.stringify(path)})[name] });`,
    resolveDir: String(pluginData),
  }));
}

/** Files of pg, and what each requires. */
const requiredLate = [
  ["connection-parameters.js", "dns"],
  ["client.js", "./crypto/utils"],
  ["crypto/sasl.js", "./utils"],
] as const;

const leanPgFiles: Readonly<Record<string, string>> = {
  "./native": 'throw new Error("This bundle was built without pg-native.");',
  "./stream": `exports.getStream = () => new (require("node:net").Socket)();
exports.getSecureStream = (options) => require("node:tls").connect(options);`,
  pgpass: "module.exports = (_, found) => found(undefined);",
};

/** middy imports Node's streams for streamed answers, which takes 2 to 3 ms of a cold start. Here they are loaded at their first use. */
export const leanMiddy: Plugin = {
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
 * `import` of one of Node's modules reads all of its exports, and so loads what Node itself loads only when it is used:
 * streams of files, lists of blocked addresses, Web Crypto. That takes 1 ms of a cold start. `require` reads what is used.
 */
export const leanBuiltins: Plugin = {
  name: "lean builtins",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:(buffer|crypto|fs|net)$/ }, ({ path, kind, importer }) =>
      kind === "import-statement" && isOncebox(importer) ? { path, namespace: "lean-builtins" } : undefined,
    );
    onLoad({ filter: /.*/, namespace: "lean-builtins" }, ({ path }) => ({ contents: exportsWhenUsed(path) }));
  },
};

function exportsWhenUsed(path: string): string {
  const names = Object.keys(createRequire(import.meta.url)(path) as object);
  return `const all = require(${JSON.stringify(path)}), get = (name) => all[name];
${names.map((name) => `export const ${name} = /* @__PURE__ */ get("${name}");`).join("\n")}`;
}

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
