import type { Plugin } from "esbuild";

/**
 * Most functions start without a question for zod, and to read and run its modules would be a tenth of what a webhook's
 * function adds to a cold start. In a bundle they are a text, which V8 passes over, until one of zod's functions is called.
 *
 * `ownCode` is the folder of this package: an app's own zod is left alone.
 */
export const zodWhenNeeded = (ownCode: string): Plugin => ({
  name: "zod when needed",
  setup({ onResolve, onLoad, esbuild }) {
    onResolve({ filter: /^zod\// }, ({ path, importer, resolveDir }) =>
      importer.startsWith(ownCode) ? { path, namespace: "lazy-zod", pluginData: resolveDir } : undefined,
    );
    onResolve({ filter: /^zod-text$/, namespace: "lazy-zod" }, ({ path, pluginData }) => ({
      path,
      namespace: "zod-text",
      pluginData,
    }));
    onLoad({ filter: /.*/, namespace: "lazy-zod" }, ({ path, pluginData }) => ({
      contents: `import zod from "zod-text";\n${(path === "zod/mini" ? zodFunctions : ["default"]).map(forwarded).join("\n")}`,
      pluginData,
    }));
    onLoad({ filter: /.*/, namespace: "zod-text" }, async ({ pluginData: resolveDir }) => {
      const { outputFiles } = await esbuild.build({
        stdin: {
          contents: `export { ${zodFunctions.join(", ")} } from "zod/mini"; export { default } from "zod/v4/locales/en.js";`,
          resolveDir: resolveDir as string,
        },
        bundle: true,
        format: "iife",
        globalName: "zod",
        platform: "node",
        target: "node20",
        minify: true,
        write: false,
      });
      const text = JSON.stringify(`(() => {${outputFiles[0]!.text}return zod;})()`);
      // `new Function` is what --disallow-code-generation-from-strings forbids. Node has loaded node:vm already.
      return {
        contents: `let loaded; export default () => (loaded ??= require("node:vm").runInThisContext(${text}));`,
      };
    });
  },
});

/** What this package calls of `zod/mini`. */
export const zodFunctions: readonly string[] = [
  "array",
  "catchall",
  "custom",
  "literal",
  "looseObject",
  "maxLength",
  "minLength",
  "object",
  "optional",
  "refine",
  "strictObject",
  "string",
  "union",
];

const forwarded = (name: string): string =>
  `export ${name === "default" ? "default" : `const ${name} =`} (...values) => zod().${name}(...values);`;
