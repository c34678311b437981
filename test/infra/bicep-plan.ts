import type { Node } from "web-tree-sitter";
import { bicepTrees } from "../../scripts/bicep-files.js";

/** Anything that a Bicep expression can be. What only Azure knows is a text like `<webhookIdentity.clientId>`. */
// biome-ignore lint/suspicious/noExplicitAny: the shapes are Azure's, and tests read them
export type Value = any;

export interface Planned {
  /** The module's symbol in main.bicep; "main" for the file itself. */
  readonly module: string;
  readonly file: string;
  readonly symbol: string;
  readonly type: string;
  readonly apiVersion: string;
  readonly body: Value;
}

export interface Plan {
  readonly resources: readonly Planned[];
  readonly outputs: Readonly<Record<string, Value>>;
  /** The parameters that each module gets. */
  readonly modules: Readonly<Record<string, Readonly<Record<string, Value>>>>;
}

interface Scope {
  lookup(name: string): Value;
}

/** A module, a resource or something within one: its properties are known after the deployment only. */
class Later {
  constructor(readonly path: string) {}
  toString = (): string => `<${this.path}>`;
  toJSON = (): string => this.toString();
}

let reading: ReturnType<typeof bicepTrees> | undefined;

/** Evaluates main.bicep with these parameters as a deployment would, up to what only Azure knows. */
export async function bicepPlan(params: Readonly<Record<string, Value>>): Promise<Plan> {
  reading ??= bicepTrees();
  const trees = await reading;
  const resources: Planned[] = [];
  const modules: Record<string, Record<string, Value>> = {};
  const outputs = deploy("main", "main.bicep", params);
  return { resources, outputs, modules };

  function deploy(module: string, file: string, given: Readonly<Record<string, Value>>) {
    const nodes = trees.get(file)!.namedChildren as Node[];
    const named = (type: string) => nodes.filter((node) => node.type === type);
    const declared = new Map<string, () => Value>();
    const scope: Scope = {
      lookup(name) {
        const found = declared.get(name);
        if (found === undefined) throw new Error(`${file} has no ${name}`);
        return found();
      },
    };
    for (const node of named("parameter_declaration")) {
      const name = node.namedChildren[0]!.text;
      const otherwise = node.namedChildren[2];
      if (!(name in given) && otherwise == null) throw new Error(`${module} needs ${name}`);
      const value = name in given ? given[name] : evaluate(otherwise!, scope);
      declared.set(name, () => value);
    }
    for (const node of named("variable_declaration"))
      declared.set(node.namedChildren[0]!.text, () => evaluate(node.namedChildren.at(-1)!, scope));
    const makers = nodes.filter(
      ({ type }) => type === "resource_declaration" || type === "module_declaration",
    );
    const nameOf = (symbol: string) => (module === "main" ? symbol : `${module}.${symbol}`);
    for (const { namedChildren } of makers) {
      const symbol = namedChildren[0]!.text;
      declared.set(symbol, () => new Later(nameOf(symbol)));
    }
    for (const node of makers) {
      const [symbol, kind] = node.namedChildren.map((child) => child!.text) as [string, string];
      if (/^resource \w+ '[^']+' existing\b/.test(node.text)) continue;
      for (const body of bodies(node.namedChildren.at(-1)!, scope)) {
        const target = kind.slice(1, -1);
        if (node.type === "resource_declaration") {
          const [type, apiVersion] = target.split("@") as [string, string];
          resources.push({ module, file, symbol, type, apiVersion, body });
        } else {
          modules[symbol] = body.params;
          deploy(symbol, target, body.params);
        }
      }
    }
    return Object.fromEntries(
      named("output_declaration").map(({ namedChildren }) => [
        namedChildren[0]!.text,
        evaluate(namedChildren.at(-1)!, scope),
      ]),
    );
  }
}

/** One body, none for a condition that is false, or one for each item of a loop. */
function bodies(node: Node, scope: Scope): readonly Value[] {
  if (node.type === "if_statement") {
    const [condition, body] = node.namedChildren as [Node, Node];
    return evaluate(condition, scope) ? bodies(body, scope) : [];
  }
  return node.type === "for_statement" ? evaluate(node, scope) : [evaluate(node, scope)];
}

const functions: Readonly<Record<string, (...args: Value[]) => Value>> = {
  concat: (...lists) => lists.flat(),
  union: (...all) => (Array.isArray(all[0]) ? [...new Set(all.flat())] : Object.assign({}, ...all)),
  empty: (value) => value === null || value.length === 0,
  startsWith: (text: string, start: string) => text.startsWith(start),
  replace: (text: string, from: string, to: string) => text.replaceAll(from, to),
  join: (list: string[], by: string) => list.join(by),
  string: (value) =>
    typeof value === "object" && !(value instanceof Later) ? JSON.stringify(value) : String(value),
  indexOf: (list: Value[], item) => list.indexOf(item),
  uniqueString: () => "abcdefghijklm",
  guid: (...parts) => `guid(${parts.join(", ")})`,
  newGuid: () => "<random>",
  subscriptionResourceId: (type: string, id: string) => `${type}/${id}`,
  subscription: () => ({ id: "<subscription>", tenantId: "<tenant>" }),
  environment: () => ({
    suffixes: { storage: "core.windows.net", sqlServerHostname: ".database.windows.net" },
  }),
};

const operators: Readonly<Record<string, (left: Value, right: () => Value) => Value>> = {
  "&&": (left, right) => left && right(),
  "||": (left, right) => left || right(),
  "==": (left, right) => left === right(),
  ">": (left, right) => left > right(),
};

function evaluate(node: Node, scope: Scope): Value {
  const children = (node.namedChildren as Node[]).filter(({ type }) => type !== "comment");
  const part = (field: string) => node.childForFieldName(field)!;
  switch (node.type) {
    case "string":
      if (children.length === 0) return node.text.slice(1, -1); // white space alone
      return children.map((child) => textOf(child, scope)).join("");
    case "number":
      return Number(node.text);
    case "boolean":
      return node.text === "true";
    case "null":
      return null;
    case "identifier":
      return scope.lookup(node.text);
    case "parenthesized_expression":
      return evaluate(children[0]!, scope);
    case "array":
      return children.map((child) => evaluate(child, scope));
    case "object":
      return Object.fromEntries(children.map((child) => property(child, scope)));
    case "ternary_expression":
      return evaluate(part(evaluate(part("condition"), scope) ? "consequence" : "alternative"), scope);
    case "unary_expression":
      return node.text.startsWith("-") ? -Number(node.text.slice(1)) : !evaluate(part("argument"), scope);
    case "binary_expression": {
      const operator = node.children.find((child) => child!.text in operators)!.text;
      return operators[operator]!(evaluate(part("left"), scope), () => evaluate(part("right"), scope));
    }
    case "call_expression": {
      const args = (part("arguments").namedChildren as Node[]).filter(({ type }) => type !== "comment");
      return functions[part("function").text]!(...args.map((child) => evaluate(child, scope)));
    }
    case "member_expression":
      return memberOf(node, scope);
    case "subscript_expression":
      return member(evaluate(part("object"), scope), String(evaluate(part("index"), scope)));
    case "for_statement":
      return loop(node, scope);
    default:
      throw new Error(`Cannot evaluate ${node.type}: ${node.text.slice(0, 80)}`);
  }
}

const member = (value: Value, name: string): Value => {
  if (value instanceof Later)
    return name === "outputs" || name === "properties" ? value : new Later(`${value.path}.${name}`);
  if (!Object.hasOwn(Object(value), name)) throw new Error(`There is no ${name} in ${JSON.stringify(value)}`);
  return value[name];
};

/** The grammar reads `a ? b : c.d` as `(a ? b : c).d`, unlike Bicep. */
function memberOf(node: Node, scope: Scope): Value {
  const names: string[] = [];
  let from = node;
  for (; from.type === "member_expression"; from = from.childForFieldName("object")!)
    names.unshift(from.childForFieldName("property")!.text);
  if (from.type !== "ternary_expression") return names.reduce(member, evaluate(from, scope));
  const part = (field: string) => evaluate(from.childForFieldName(field)!, scope);
  return part("condition") ? part("consequence") : names.reduce(member, part("alternative"));
}

const textOf = (node: Node, scope: Scope): string => {
  if (node.type === "interpolation") return String(evaluate(node.namedChildren[0]!, scope));
  return node.type === "escape_sequence" ? node.text.slice(1) : node.text;
};

const property = ({ namedChildren }: Node, scope: Scope): [string, Value] => {
  const [key, value] = [
    namedChildren[0]!,
    namedChildren.filter((child) => child!.type !== "comment").at(-1)!,
  ];
  return [key.type === "string" ? evaluate(key, scope) : key.text, evaluate(value, scope)];
};

function loop(node: Node, scope: Scope): readonly Value[] {
  const [head, list] = node.namedChildren as [Node, Node];
  const [item, index] =
    head.type === "for_loop_parameters" ? head.namedChildren.map((child) => child!.text) : [head.text];
  const body = node.childForFieldName("body")!;
  return (evaluate(list, scope) as Value[]).map((value, at) =>
    evaluate(body, {
      lookup: (name) => (name === item ? value : name === index ? at : scope.lookup(name)),
    }),
  );
}
