// Builds the documentation site from docs/ and the types: `npm run docs`. Its tools have a package of their own in site/,
// which is installed here the first time.
//
//   npm run docs [-- --base /oncebox/ --out build/docs]
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { problemsOfSite } from "./docs/dead-links.js";
import { packageEntries } from "./docs/package-entries.js";
import { referenceFile, referenceIndex, sidebarOf } from "./docs/sidebar.js";
import { sitePages } from "./docs/site-pages.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const site = join(root, "site");
const { values } = parseArgs({
  options: {
    base: { type: "string", default: "/" },
    out: { type: "string", default: join(root, "build/docs") },
  },
});
const { base } = values;
if (!/^\/(.+\/)?$/.test(base)) throw new Error(`--base must begin and end with a slash. It is "${base}".`);
const out = resolve(values.out);

const run = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) =>
  execFileSync(program, args, { cwd: site, stdio: "inherit", env, shell: process.platform === "win32" });

if (!existsSync(join(site, "node_modules/vitepress"))) run("npm", ["ci", "--ignore-scripts"]);

const pages = await mkdtemp(join(site, ".pages-")); // beside the tools, which pages import from
try {
  await writePages();
  await writeReference();
  run(process.execPath, ["node_modules/vitepress/bin/vitepress.js", "build", "."], {
    ...process.env,
    DOCS_PAGES: pages,
  });
} finally {
  await rm(pages, { recursive: true, force: true });
}
const problems = problemsOfSite(out, base);
if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}
console.log(`The site is in ${out}, for a file server that has it at ${base}.`);

async function writePages(): Promise<void> {
  const all = sitePages(root);
  for (const { file, text } of all) await write(file, text);
  await cp(join(root, "docs/images"), join(pages, "images"), { recursive: true });
  await write(
    "public/messaging-protocol-vectors.json",
    await readFile(join(root, "docs/messaging-protocol-vectors.json"), "utf8"),
  );
  const { description, repository } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const settings = {
    base,
    out,
    description,
    repository: repository.url.replace(/^git\+|\.git$/g, ""),
    sidebar: sidebarOf(all, packageEntries(root)),
  };
  await write("site.json", JSON.stringify(settings));
}

async function writeReference(): Promise<void> {
  const entries = packageEntries(root);
  await write("entries.json", JSON.stringify(entries));
  const folder = join(pages, "reference");
  run(process.execPath, ["reference.mjs", join(pages, "entries.json"), folder]);
  const texts = new Map<string, string>();
  for (const entry of entries) {
    const file = referenceFile(entry);
    texts.set(file, await readFile(join(pages, file), "utf8"));
  }
  await rm(join(folder, "README.md")); // TypeDoc's own first page
  await write("reference/index.md", referenceIndex(entries, texts));
}

async function write(file: string, text: string): Promise<void> {
  await mkdir(dirname(join(pages, file)), { recursive: true });
  await writeFile(join(pages, file), text);
}
