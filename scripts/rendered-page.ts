import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build } from "esbuild";

const folder = fileURLToPath(new URL("../src/admin/page/", import.meta.url));

/** Lines of this length keep the differences between two versions of the page small. */
const lineLimit = 120;

async function bundled(entry: string, options: BuildOptions = {}): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [`${folder}${entry}`],
    bundle: true,
    // names stay as they are, so that a small change of the page is a small change of this file
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit,
    charset: "utf8",
    target: ["chrome109", "firefox115", "safari16.4"],
    legalComments: "none",
    write: false,
    ...options,
  });
  return outputFiles![0]!.text;
}

const asLines = (text: string): string =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => `    ${JSON.stringify(line)},\n`)
    .join("");

/** The text of `page-files.ts`: the page as texts, so that every bundle of the function has it without a file beside it. */
export async function renderedPage(): Promise<string> {
  const files = {
    html: await readFile(`${folder}index.html`, "utf8"),
    js: await bundled("main.ts", { format: "esm" }),
    css: await bundled("page.css"),
  };
  const field = (name: keyof typeof files) => `[\n${asLines(files[name])}  ].join("\\n")`;
  return [
    "// Made by npm run render:page from the other files of this folder; do not edit.",
    "",
    "/** The files of the admin page. `folder` is where its script and style sheet are, relative to the page. */",
    "export const pageFiles = {",
    `  html: (folder: string): string => ${field("html")}.replaceAll("./page.", \`\${folder}page.\`),`,
    `  js: ${field("js")},`,
    `  css: ${field("css")},`,
    "};",
    "",
  ].join("\n");
}
