import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { commands } from "../../../src/cli/run.js";
import { readDocument, root } from "../../support/markdown.js";

const pages = readdirSync(join(root, "docs"))
  .filter((name) => name.endsWith(".md"))
  .map((name) => `docs/${name}`);

/** The scripts of an app that `oncebox init` makes. */
const scripts = ["package:aws", "package:azure", "typecheck"];

const blocksOf = (page: string): string =>
  [...readDocument(page).matchAll(/^```(\w*)\n([\s\S]*?)^```/gm)]
    .filter(([, language]) => language === "" || language === "sh")
    .map(([, , block]) => block)
    .join("\n");

const matched = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].map(([, name]) => name!);

describe("the commands of the documents", () => {
  it.each(pages)("%s names only what an installed package has", (page) => {
    const text = blocksOf(page);
    expect(matched(text, /\bnpm run ([\w:-]+)/g).filter((name) => !scripts.includes(name))).toEqual([]);
    const names = commands.map(({ name }) => name);
    expect(matched(text, /^(?:npx )?oncebox ([a-z]+)/gm).filter((name) => !names.includes(name))).toEqual([]);
    expect(matched(text, /\b(tsx src\/\S+)/g)).toEqual([]);
  });
});
