import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { describe, expect, it } from "vitest";
import { packageEntries } from "../../../scripts/docs/package-entries.js";
import { referenceFile, referenceIndex, type SidebarItem, sidebarOf } from "../../../scripts/docs/sidebar.js";
import { sitePages } from "../../../scripts/docs/site-pages.js";
import { presetNames } from "../../../src/webhooks/index.js";
import { readDocument, root } from "../../support/markdown.js";

const pages = sitePages(root);
const entries = packageEntries(root);
const linksOf = (item: SidebarItem): readonly string[] => [
  ...(item.link === undefined ? [] : [item.link]),
  ...(item.items ?? []).flatMap(linksOf),
];

/** `npm run test:network -- docs-site` builds it and walks through it in a browser. */
describe("the documentation site", () => {
  it("has a page for every document, and its links lead to pages or to the sources", () => {
    const files = new Set([...pages.map(({ file }) => file), "messaging-protocol-vectors.json"]);
    const dead = pages.flatMap(({ file, text }) =>
      [...text.replace(/```[\s\S]*?```|`[^`\n]*`/g, "").matchAll(/\]\(([^)\s]+)\)/g)]
        .map(([, link]) => link!.split("#")[0]!)
        .filter((link) => link !== "" && !/^[a-z]+:/.test(link))
        .map((link) => posix.join(dirname(file), link))
        .filter((target) => !files.has(target) && !existsSync(join(root, "docs", target))),
    );
    expect(dead).toEqual([]);
    expect(pages.length).toBeGreaterThan(50);
  });

  it("its reference has every module that a program can import", () => {
    const { exports } = JSON.parse(readDocument("package.json")) as { exports: Record<string, unknown> };
    const names = entries.map(({ name }) => name);
    for (const subpath of Object.keys(exports).filter((one) => !/\*|package\.json/.test(one)))
      expect(names).toContain(subpath.replace(/^\./, "oncebox"));
    for (const preset of presetNames) expect(names).toContain(`oncebox/webhooks/${preset}`);
    for (const { source } of entries) expect(existsSync(join(root, source)), source).toBe(true);
    expect(new Set(entries.map(referenceFile)).size).toBe(entries.length);
  });

  it("its sidebar leads to every page of docs and to every module but the presets, which are on one page", () => {
    const links = sidebarOf(pages, entries).flatMap(linksOf);
    const missing = pages
      .filter(({ document }) => document !== undefined && posix.dirname(document) === "docs")
      .filter(({ file }) => file !== "contents.md" && !links.includes(`/${file.replace(/\.md$/, "")}`));
    expect(missing.map(({ file }) => file)).toEqual([]);
    expect(links).toContain("/reference/aws");
    const page = "# oncebox\n\n## Functions\n\n### createInbox()\n\n## Interfaces\n\n### Inbox\n";
    const index = referenceIndex(entries, new Map(entries.map((entry) => [referenceFile(entry), page])));
    for (const { name } of entries) expect(index).toContain(`| [\`${name}\`](./`);
    expect(index).toContain("| `createInbox` |");
  });

  it("loads nothing from another server", () => {
    const folder = join(root, "site/.vitepress");
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
      /\.\w+$/.test(name),
    );
    expect(files.length).toBeGreaterThan(3);
    for (const name of files)
      expect(readFileSync(join(folder, name), "utf8"), name).not.toMatch(/https?:\/\//);
  });
});
