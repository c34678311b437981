import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
import { databases } from "./databases.js";

/** The code of this package: `src` in the repository, `dist` in the installed package. */
export const code = fileURLToPath(new URL("..", import.meta.url));
export const isSource = basename(code) === "src";
export const root = join(code, "..");

/** Whether the file belongs to this package, whatever its folder is called, or to the copy that the app has installed. */
export const isOncebox = (path: string): boolean =>
  path.startsWith(code) || /[\\/]oncebox[\\/]dist[\\/]/.test(path);

/** Resolves `import … from "oncebox/app"` and `"oncebox/webhooks/stripe"` to the sources in the repository, not to the last build. */
export const ownPackage: Plugin = {
  name: "own package",
  setup({ onResolve }) {
    onResolve({ filter: /^oncebox(\/\w+|\/webhooks\/\w+)?$/ }, ({ path }) => ({
      path: join(root, sourceOf(path)),
    }));
  },
};

function sourceOf(path: string): string {
  const name = path === "oncebox" ? "" : basename(path);
  if (path.startsWith("oncebox/webhooks/")) return `src/webhooks/presets/${name}.ts`;
  if (name === "") return "src/index.ts";
  if ((databases as readonly string[]).includes(name)) return `src/sql/${name}/index.ts`;
  return name === "aws" || name === "azure" ? `src/adapters/${name}/index.ts` : `src/${name}/index.ts`;
}
