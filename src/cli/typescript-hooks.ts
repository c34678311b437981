import { readFile } from "node:fs/promises";
import type { LoadHook, ResolveHook } from "node:module";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";

const isTypeScript = (url: string): boolean => /^file:.*\.m?ts$/.test(url) && !url.includes("/node_modules/");

/** TypeScript's own rule: an import of `./file.js` means `./file.ts` where there is no `./file.js`. */
export const resolve: ResolveHook = async (specifier, context, next) => {
  try {
    return await next(specifier, context);
  } catch (error) {
    const source = specifier.replace(/\.(m?)js$/, ".$1ts");
    if (source === specifier || !isTypeScript(context.parentURL ?? "")) throw error;
    return next(source, context);
  }
};

export const load: LoadHook = async (url, context, next) => {
  const { protocol, pathname, href } = new URL(url);
  if (!isTypeScript(`${protocol}${pathname}`)) return next(url, context);
  const file = fileURLToPath(href);
  const { code } = await transform(await readFile(file, "utf8"), {
    loader: "ts",
    format: "esm",
    target: "node20",
    sourcefile: file,
    sourcemap: "inline",
  });
  return { format: "module", source: code, shortCircuit: true };
};
