import { readdirSync } from "node:fs";
import { join } from "node:path";
import { readDocument, root } from "./markdown.js";

/** Every document that users read: the README, and all pages under docs. */
export const documents: readonly string[] = [
  "README.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name.replaceAll("\\", "/")}`)
    .sort(),
];

export interface Block {
  readonly document: string;
  /** The line of the document on which the block begins. */
  readonly line: number;
  readonly language: string;
  readonly code: string;
}

/** All code blocks of all documents, in their order. */
export const blocks: readonly Block[] = documents.flatMap((document) => {
  const text = readDocument(document);
  return [...text.matchAll(/^```(\S*)\n([\s\S]*?)^```$/gm)].map(({ 1: language, 2: code, index }) => ({
    document,
    line: text.slice(0, index).split("\n").length,
    language: language!,
    code: code!,
  }));
});

/** The blocks in these languages. */
export const blocksIn = (...languages: readonly string[]): readonly Block[] =>
  blocks.filter(({ language }) => languages.includes(language));

export const placeOf = ({ document, line }: Block): string => `${document}:${line}`;
