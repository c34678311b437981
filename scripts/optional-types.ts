import { readFileSync, writeFileSync } from "node:fs";
import { filesUnder } from "./files-under.js";

const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  readonly dependencies: Readonly<Record<string, string>>;
};

/** Packages that are always there. Any other one that a type comes from may be missing. */
const alwaysThere = [...Object.keys(manifest.dependencies), "oncebox", "node:"];

/** Not in the types of older versions of Node. */
const newInNode = ["node:sqlite"];

const importedFrom = /(?:from |import\()"([^."][^"]*)"/;

/**
 * Types that come from a package that is not installed become `any`, instead of an error of the compiler in our files. With
 * the package installed they are its types.
 */
export function letOptionalTypesBeMissing(folder: string): void {
  for (const file of filesUnder(folder, ".d.ts")) {
    const text = readFileSync(file, "utf8");
    const lines = text.split("\n").flatMap((line) => {
      const name = importedFrom.exec(line)?.[1];
      const isOptional =
        !/^\s*\*/.test(line) &&
        name !== undefined &&
        (newInNode.includes(name) || !alwaysThere.some((one) => name.startsWith(one)));
      return isOptional ? ["// @ts-ignore: an optional package", line] : [line];
    });
    writeFileSync(file, lines.join("\n"));
  }
}
