import type { PackageEntry } from "./package-entries.js";
import type { SitePage } from "./site-pages.js";

/** As VitePress takes it. */
export interface SidebarItem {
  readonly text: string;
  readonly link?: string;
  readonly items?: readonly SidebarItem[];
}

/** The groups and pages of the contents page in its order, then the API reference. */
export const sidebarOf = (
  pages: readonly SitePage[],
  entries: readonly PackageEntry[],
): readonly SidebarItem[] => [...groupsOf(pages), apiReference(entries)];

function groupsOf(pages: readonly SitePage[]): readonly SidebarItem[] {
  const contents = pages.find(({ file }) => file === "contents.md")!;
  return contents.text
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [text = ""] = section.split("\n");
      const links = [...section.matchAll(/^- \[([^\]]+)\]\(\.\/([^)#]+)(#[^)]*)?\)/gm)];
      const items = links.map(([, name, file, anchor = ""]) => {
        const page = pages.find((one) => one.file === file);
        if (page === undefined) throw new Error(`The contents name ${file}, which is no page.`);
        return { text: name!, link: `/${file!.replace(/(index)?\.md$/, "")}${anchor}` };
      });
      return { text, items };
    });
}

/** Where a module's page is on the site. */
export const referenceFile = ({ name }: PackageEntry): string =>
  `reference/${name.includes("/") ? name.slice(name.indexOf("/") + 1) : name}.md`;

const isPreset = ({ name }: PackageEntry): boolean => /\/webhooks\/./.test(name);

/** The modules by name. The presets of webhooks are many and alike: the reference's first page has them. */
const apiReference = (entries: readonly PackageEntry[]): SidebarItem => ({
  text: "API reference",
  items: [
    { text: "All modules", link: "/reference/" },
    ...entries
      .filter((entry) => !isPreset(entry))
      .map((entry) => ({ text: entry.name, link: `/${referenceFile(entry).replace(/\.md$/, "")}` })),
    { text: "Presets of webhooks", link: "/reference/#presets-of-webhooks" },
  ],
});

/** The first page of the reference: every module with what it exports, from the modules' pages by their files. */
export function referenceIndex(entries: readonly PackageEntry[], pages: ReadonlyMap<string, string>): string {
  const table = (some: readonly PackageEntry[]): string => {
    const rows = some.map((entry) => {
      const file = referenceFile(entry);
      return `| [\`${entry.name}\`](./${file.slice("reference/".length)}) | ${namesIn(pages.get(file)!)} |`;
    });
    return `| module | functions, classes and values |\n|---|---|\n${rows.join("\n")}\n`;
  };
  return `# API reference

What the package exports, by the module that a program imports it from.

${table(entries.filter((entry) => !isPreset(entry)))}
## Presets of webhooks

A source names its preset, such as \`scheme: "stripe"\`. A program that signs or verifies by itself imports it.

${table(entries.filter(isPreset))}`;
}

/** The functions, classes and variables that a module's page describes. */
const namesIn = (page: string): string =>
  page
    .split(/^## /m)
    .filter((section) => /^(Functions|Classes|Variables)\n/.test(section))
    .flatMap((section) => [...section.matchAll(/^### (.*)$/gm)])
    .map(([, heading]) => `\`${heading!.replace(/\\|\(.*/g, "")}\``)
    .join(", ");
