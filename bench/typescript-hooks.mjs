import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";

const isOurs = (url) => url?.startsWith("file:") && !url.includes("/node_modules/");

/** In TypeScript, `./file.js` is `./file.ts` before it is compiled. */
export async function resolve(specifier, context, next) {
  if (isOurs(context.parentURL) && /^\.{1,2}\/.*\.js$/.test(specifier)) {
    try {
      return await next(specifier.replace(/\.js$/, ".ts"), context);
    } catch {
      // one that was JavaScript from the beginning
    }
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!isOurs(url) || !url.endsWith(".ts")) return next(url, context);
  const file = fileURLToPath(url);
  const { code } = await transform(await readFile(file, "utf8"), {
    loader: "ts",
    format: "esm",
    target: "node20",
    sourcefile: file,
    sourcemap: "inline",
  });
  return { format: "module", source: code, shortCircuit: true };
}
