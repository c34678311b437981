import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, posix } from "node:path";

/** A page of the site, as Markdown. */
export interface SitePage {
  /** The document that it is made from, from the project's folder; undefined where it is made of nothing. */
  readonly document: string | undefined;
  /** Its file on the site, such as `decisions/0001-message-and-state-rows.md`. */
  readonly file: string;
  readonly text: string;
}

/** Documents that are found under another name on the site. */
const renamed: Readonly<Record<string, string>> = {
  "README.md": "index.md",
  "docs/README.md": "contents.md",
  "CHANGELOG.md": "changelog.md",
};

/** All pages but those of the API reference. */
export function sitePages(root: string): readonly SitePage[] {
  const inDocs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .map((name) => `docs/${name.replaceAll("\\", "/")}`)
    .filter((name) => name.endsWith(".md"))
    .sort();
  const pages = ["README.md", "CHANGELOG.md", ...inDocs].map((document) => ({
    document,
    file: fileOf(document),
    text: withSiteLinks(readFileSync(join(root, document), "utf8"), document, root),
  }));
  return [...pages, decisionsPage(pages)];
}

const fileOf = (document: string): string => renamed[document] ?? document.replace(/^docs\//, "");

/** The list of decisions, which a folder shows by itself where the documents are read as files. */
function decisionsPage(pages: readonly SitePage[]): SitePage {
  const items = pages
    .filter(({ file }) => file.startsWith("decisions/"))
    .map(({ file, text }) => `- [${titleOf(text)}](${posix.basename(file)})`);
  return { document: undefined, file: "decisions/index.md", text: `# Decisions\n\n${items.join("\n")}\n` };
}

export const titleOf = (text: string): string => /^# (.*)$/m.exec(text)?.[1] ?? "";

/** The links, in all but code, as they are on the site. What the site does not have is linked where the sources are. */
function withSiteLinks(text: string, document: string, root: string): string {
  return text
    .split(/(```[\s\S]*?```|`[^`\n]*`)/)
    .map((part, index) =>
      index % 2 === 1
        ? part
        : part.replace(/(\]\()([^)\s]+)(?=\))/g, (_, start, link) => start + siteLink(link, document, root)),
    )
    .join("");
}

function siteLink(link: string, document: string, root: string): string {
  const [path = "", anchor] = link.split("#");
  if (path === "" || /^[a-z]+:/.test(path)) return link;
  const target = posix.join(posix.dirname(document), path).replace(/\/$/, "");
  const behind = anchor === undefined ? "" : `#${anchor}`;
  const isOnSite = target.startsWith("docs/") || target in renamed;
  if (!isOnSite) return sourceLink(target, root) + behind;
  const file = target === "docs/decisions" ? "decisions/index.md" : fileOf(target);
  const relative = posix.relative(dirname(fileOf(document)), file);
  return (relative.startsWith(".") ? relative : `./${relative}`) + behind;
}

/** The address of a file or folder of the project that is no page of the site. */
function sourceLink(target: string, root: string): string {
  if (!existsSync(join(root, target))) throw new Error(`There is no ${target}, to which a document links.`);
  const { repository } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const address = (repository.url as string).replace(/^git\+|\.git$/g, "");
  const kind = statSync(join(root, target)).isDirectory() ? "tree" : "blob";
  return `${address}/${kind}/main/${target}`;
}
