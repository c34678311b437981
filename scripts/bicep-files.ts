import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Language, type Node, Parser } from "web-tree-sitter";

export const azureFolder = fileURLToPath(new URL("../infra/azure", import.meta.url));

/** A parsed value: objects, lists and strings. Every other expression is its source text. */
export type BicepValue = string | readonly BicepValue[] | { readonly [name: string]: BicepValue };
export type BicepObject = { readonly [name: string]: BicepValue };

export interface BicepResource {
  readonly file: string;
  readonly symbol: string;
  /** `Microsoft.Web/sites` */
  readonly type: string;
  readonly apiVersion: string;
  /** It is made elsewhere, and only referred to here. */
  readonly existing: boolean;
  readonly body: BicepObject;
}

export interface BicepFile {
  readonly name: string;
  readonly text: string;
  /** Syntax errors, as `line:column text`. */
  readonly errors: readonly string[];
  readonly resources: readonly BicepResource[];
  readonly variables: BicepObject;
  readonly modules: Readonly<Record<string, { readonly file: string; readonly params: BicepObject }>>;
}

async function bicepParser(): Promise<Parser> {
  await Parser.init();
  const grammar = createRequire(import.meta.url).resolve("tree-sitter-bicep/tree-sitter-bicep.wasm");
  const parser = new Parser();
  parser.setLanguage(await Language.load(grammar));
  return parser;
}

export async function readBicepFiles(folder = azureFolder): Promise<readonly BicepFile[]> {
  const parser = await bicepParser();
  const names = (await readdir(folder)).filter((name) => name.endsWith(".bicep")).sort();
  return Promise.all(
    names.map(async (name) => parse(parser, name, await readFile(join(folder, name), "utf8"))),
  );
}

/** The syntax trees of the files, by name. */
export async function bicepTrees(folder = azureFolder): Promise<ReadonlyMap<string, Node>> {
  const parser = await bicepParser();
  const files = await readBicepFiles(folder);
  return new Map(files.map(({ name, text }) => [name, parser.parse(text)!.rootNode]));
}

function parse(parser: Parser, name: string, text: string): BicepFile {
  const root = parser.parse(text)!.rootNode;
  const all = descendants(root);
  const declared = (type: string) => all.filter((node) => node.type === type);
  return {
    name,
    text,
    errors: all
      .filter((node) => node.isError || node.isMissing)
      .map(
        (node) => `${node.startPosition.row + 1}:${node.startPosition.column + 1} ${node.text.slice(0, 60)}`,
      ),
    resources: declared("resource_declaration").map((node) => toResource(name, node)),
    variables: Object.fromEntries(
      declared("variable_declaration").map(({ namedChildren }) => [
        namedChildren[0]!.text,
        toValue(namedChildren.at(-1)!),
      ]),
    ),
    modules: Object.fromEntries(declared("module_declaration").map(toModule)),
  };
}

const descendants = (node: Node): Node[] => [node, ...node.children.flatMap((child) => descendants(child!))];

function toResource(file: string, node: Node): BicepResource {
  const [symbol, kind] = node.namedChildren;
  const [type = "", apiVersion = ""] = textOf(kind!).split("@");
  const existing = /^resource \w+ '[^']+' existing\b/.test(node.text);
  return { file, symbol: symbol!.text, type, apiVersion, existing, body: bodyOf(node) };
}

function toModule(node: Node) {
  const [symbol, file] = node.namedChildren;
  return [symbol!.text, { file: textOf(file!), params: bodyOf(node).params as BicepObject }] as const;
}

/** Returns the object of a declaration, also of one with a condition or a loop. Leaves out nested resources. */
function bodyOf(node: Node): BicepObject {
  const last = node.namedChildren.at(-1)!;
  if (last.type === "object") return toValue(last) as BicepObject;
  return bodyOf(last);
}

function toValue(node: Node): BicepValue {
  if (node.type === "object") {
    const properties = node.namedChildren.filter((child) => child!.type === "object_property");
    return Object.fromEntries(
      properties.map((property) => {
        const [key, value] = [property!.namedChildren[0]!, property!.namedChildren.at(-1)!];
        return [key.type === "string" ? textOf(key) : key.text, toValue(value)];
      }),
    );
  }
  if (node.type === "array") {
    return node.namedChildren.filter((child) => child!.type !== "comment").map((child) => toValue(child!));
  }
  return node.type === "string" ? textOf(node) : node.text;
}

const textOf = (string: Node): string => string.text.replace(/^'|'$/g, "");
