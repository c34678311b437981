import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { readDocument, root } from "../../support/markdown.js";

const inFolder = (folder: string): readonly string[] =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `${folder}/${name}`);

const documents = [
  "README.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  "bench/README.md",
  "examples/two-services/README.md",
  "examples/consumers/README.md",
  "examples/frameworks/README.md",
  "examples/nest/README.md",
  "examples/next/README.md",
  "examples/inbox-client-python/README.md",
  ...inFolder("docs"),
  ...inFolder("docs/decisions"),
];

/** As GitHub makes them from headings. */
const anchorsOf = (document: string): readonly string[] =>
  [...readDocument(document).matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replaceAll(" ", "-"),
  );

const withoutCode = (text: string): string => text.replace(/```[\s\S]*?```/g, "").replace(/`[^`]*`/g, "");

const problemOf = (document: string, link: string): string | undefined => {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? document : join(dirname(document), path);
  if (!existsSync(join(root, target))) return `${document}: ${link} does not exist`;
  if (anchor === undefined || anchorsOf(target).includes(anchor)) return undefined;
  return `${document}: ${link} has no such heading`;
};

describe("links in the documents", () => {
  it.each(documents)("%s", (document) => {
    const links = [...withoutCode(readDocument(document)).matchAll(/\]\(([^)\s]+)\)/g)].map(
      ([, link]) => link!,
    );
    const own = links.filter((link) => !/^[a-z]+:/.test(link));
    expect(own.flatMap((link) => problemOf(document, link) ?? [])).toEqual([]);
  });

  it("the index names every page", () => {
    const index = readDocument("docs/README.md");
    const missing = inFolder("docs").filter(
      (page) => page !== "docs/README.md" && !index.includes(`(${page.slice("docs/".length)}`),
    );
    expect(missing).toEqual([]);
  });
});

describe("docs/architecture.md", () => {
  const text = readDocument("docs/architecture.md");
  const pathPattern = /`((?:src|test|docs|functions|infra|bench)\/[\w./-]*)`/g;

  it("names only paths that exist", () => {
    const paths = [...text.matchAll(pathPattern)].map(([, path]) => path!);
    expect(paths.length).toBeGreaterThan(10);
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  it("names a folder for every folder of src", () => {
    const folders = readdirSync(join(root, "src"), { withFileTypes: true }).filter((one) =>
      one.isDirectory(),
    );
    const missing = folders.filter(({ name }) => !text.includes(`\`src/${name}/`));
    expect(missing.map(({ name }) => name)).toEqual([]);
  });
});

const idPattern = /\b(?:IBX|OBX|MID|SVC|MSG|FUN|ADD)-\d{2,3}\b/g;

it("docs/requirements.md explains every id that a test names", () => {
  const listed = [...readDocument("docs/requirements.md").matchAll(/^\| ([A-Z]+-\d+) \| \S/gm)].map(
    ([, id]) => id!,
  );
  const tests = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".ts"),
  );
  const named = new Set(tests.flatMap((name) => readDocument(join("test", name)).match(idPattern) ?? []));
  expect(named.size).toBeGreaterThan(0);
  expect([...named].filter((id) => !listed.includes(id))).toEqual([]);
  expect(listed).toHaveLength(new Set(listed).size);
});
