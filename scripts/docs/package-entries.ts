import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A module of the package that a user can import. */
export interface PackageEntry {
  /** As a program imports it, such as `oncebox/aws`. */
  readonly name: string;
  /** Its source, from the project's folder. */
  readonly source: string;
}

interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, string | { readonly import: { readonly default: string } }>>;
}

/** In the folder of a pattern, but only for the package's own use: its name is no preset. */
const internal = "index.ts";

/** Every subpath export of the package, those of a pattern one by one. A file such as package.json is none. */
export function packageEntries(root: string): readonly PackageEntry[] {
  const { name, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
  return Object.entries(exports).flatMap(([subpath, target]) => {
    if (typeof target === "string") return [];
    const imported = subpath.replace(/^\./, name);
    const source = target.import.default.replace("./dist/", "src/").replace(/\.js$/, ".ts");
    if (!source.includes("*")) return [{ name: imported, source }];
    const [folder = ""] = source.split("*");
    return readdirSync(join(root, folder))
      .filter((file) => file.endsWith(".ts") && file !== internal)
      .map((file) => ({ name: imported.replace("*", file.slice(0, -".ts".length)), source: folder + file }));
  });
}
