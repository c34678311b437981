import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { PageFiles } from "./page-files.js";

/** Makes the page's files from their sources, which only a clone has, with esbuild. */
export async function renderPage(): Promise<PageFiles> {
  const folder = fileURLToPath(new URL("./page/", import.meta.url));
  const [html, js, css] = await Promise.all([
    readFile(`${folder}index.html`, "utf8"),
    bundled(`${folder}main.ts`),
    bundled(`${folder}page.css`),
  ]);
  return { html, js, css };
}

async function bundled(file: string): Promise<string> {
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [file],
    bundle: true,
    format: "esm",
    // names stay as they are, so that an error in the browser's console can be read
    minifyWhitespace: true,
    minifySyntax: true,
    charset: "utf8",
    target: ["chrome109", "firefox115", "safari16.4"],
    legalComments: "none",
    write: false,
  });
  return outputFiles[0]!.text;
}

/** What replaces `page-files.js` in the package and in bundles: the page as texts, with no file beside them. */
export const pageModule = async (): Promise<string> =>
  `const files = ${JSON.stringify(await renderPage())};\nexport const pageFiles = async () => files;\n`;
