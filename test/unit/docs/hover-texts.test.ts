import { posix } from "node:path";
import { expect, it } from "vitest";
import { packageEntries } from "../../../scripts/docs/package-entries.js";
import { readDocument, root } from "../../support/markdown.js";

/** A name that the package exports, and the file that has it. */
type Exported = readonly [name: string, file: string];

const reexports = /export (?:type )?\{([^}]*)\} from "([^"]+)"/g;
const declaration = (name: string) =>
  new RegExp(
    `^export (?:async )?(?:abstract )?(?:function|const|class|interface|type) ${name.replace("$", "\\$")}\\b`,
    "m",
  );

function exportedBy(file: string): readonly Exported[] {
  const text = readDocument(file);
  const passedOn = [...text.matchAll(reexports)].flatMap(([, names, from]) =>
    names!
      .split(",")
      .map((name) =>
        name
          .trim()
          .replace(/^type /, "")
          .split(" as ")[0]!
          .trim(),
      )
      .filter((name) => name !== "")
      .map((name) => [name, posix.join(posix.dirname(file), from!.replace(/\.js$/, ".ts"))] as const),
  );
  const own = [...text.matchAll(/^export (?:async )?(?:function|const|class|interface|type) (\w+)/gm)];
  return [...passedOn, ...own.map(([, name]) => [name!, file] as const)];
}

/** The text before the declaration, which editors show, ends with the end of a comment. A note to us may be between. */
function hasText([name, file]: Exported): boolean {
  const text = readDocument(file);
  const at = text.search(declaration(name));
  if (at >= 0) return /\*\/\n(?:\/\/.*\n)*$/.test(text.slice(0, at));
  const [next] = exportedBy(file).filter(([other, from]) => other === name && from !== file);
  return next !== undefined && hasText(next);
}

it("ADD-13 editors show a text for every name that the package exports", () => {
  const all = packageEntries(root)
    .filter(({ name }) => !/\/webhooks\/./.test(name))
    .flatMap(({ source }) => exportedBy(source));
  expect(all.length).toBeGreaterThan(100);
  const silent = all.filter((one) => !hasText(one)).map(([name, file]) => `${file}: ${name}`);
  expect([...new Set(silent)]).toEqual([]);
});
