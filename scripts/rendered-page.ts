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
    minify: true,
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

/** The text of `src/admin/page-files.ts`: the page as texts, so that every bundle of the function has it without a file beside it. */
export async function renderedPage(): Promise<string> {
  const files = {
    html: await readFile(`${folder}index.html`, "utf8"),
    script: await bundled("main.ts", { format: "esm" }),
    style: await bundled("page.css"),
  };
  const fields = Object.entries(files).map(
    ([name, text]) => `  ${name}: [\n${asLines(text)}  ].join("\\n"),\n`,
  );
  return (
    "/** The admin page. Made by npm run render:page from src/admin/page; do not edit. */\n" +
    `export const pageFiles = {\n${fields.join("")}};\n`
  );
}
