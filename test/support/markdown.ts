import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

export const readDocument = (name: string): string => readFileSync(join(root, name), "utf8");

/** The code blocks of a language, in a document or behind one of its lines. */
export function codeBlocks(document: string, language: string, behind = ""): readonly string[] {
  const text = readDocument(document);
  const from = text.indexOf(behind);
  if (from < 0) throw new Error(`${document} has no line "${behind}".`);
  const blocks = text.slice(from).matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``, "g"));
  return [...blocks].map(([, code]) => code!);
}

interface Manifest {
  readonly exports: Readonly<Record<string, { readonly import: { readonly default: string } }>>;
}

/** The program with imports of the sources instead of the package. */
export function fromSources(program: string): string {
  const { exports } = JSON.parse(readDocument("package.json")) as Manifest;
  return program.replace(/(?<=from )"(oncebox[^"]*)"/g, (_, name: string) => {
    const file = exportedFile(exports, name.replace("oncebox", "."));
    if (file === undefined) throw new Error(`The package does not export "${name}".`);
    return JSON.stringify(join(root, file.replace("./dist/", "src/").replace(/\.js$/, ".ts")));
  });
}

/** The file of an export, also of one with a `*` in its name. */
function exportedFile(exports: Manifest["exports"], name: string): string | undefined {
  const pattern = `${name.slice(0, name.lastIndexOf("/"))}/*`;
  const found = exports[name] ?? exports[pattern];
  return found?.import.default.replace("*", name.slice(name.lastIndexOf("/") + 1));
}
