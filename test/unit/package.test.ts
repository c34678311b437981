import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { renderedSchemas } from "../../scripts/rendered-schemas.js";
import { packageVersion } from "../../src/base/require-package.js";
import { readDocument, root } from "../support/markdown.js";

it("MSG-14 the version that the diagnostics API shows is that of package.json", () => {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  expect(packageVersion).toBe((JSON.parse(manifest) as { version: string }).version);
});

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly files: readonly string[];
  readonly scripts: Readonly<Record<string, string>>;
};
/** npm adds the last three by itself. */
const published = [...manifest.files, "README.md", "LICENSE", "package.json"];
const isPublished = (path: string) => published.some((name) => path === name || path.startsWith(`${name}/`));

const documents = [
  "README.md",
  "CHANGELOG.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name.replaceAll("\\", "/")}`),
];

describe("the published package", () => {
  it("is built before it is packed, and never when it is installed", () => {
    expect(manifest.scripts.prepack).toBe("npm run build:package");
    for (const name of ["prepare", "preinstall", "install", "postinstall", "prepublish"])
      expect(manifest.scripts).not.toHaveProperty(name);
  });

  it.each(documents)("%s links to nothing that the package does not have", (document) => {
    expect(isPublished(document)).toBe(true);
    const text = readDocument(document).replace(/```[\s\S]*?```|`[^`]*`/g, "");
    const links = [...text.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)].map(([, link]) => link!);
    const own = links.filter((link) => !/^[a-z]+:/.test(link));
    expect(own.filter((link) => !isPublished(join(dirname(document), link)))).toEqual([]);
  });
});

describe("infra/sql", () => {
  it.each(renderedSchemas())("IBX-117 OBX-094 $file is the schema that migrate deploys", ({ file, sql }) => {
    expect(readFileSync(new URL(`../../infra/sql/${file}`, import.meta.url), "utf8")).toBe(sql);
  });
});
