import { readFileSync } from "node:fs";

/** Values of a model's `#define`s: sizes, and which mutant it is. */
export type Sizes = Readonly<Record<string, number>>;

/** Thrown by an assertion of the model; `rule` is the inline that has it. */
export class Violation extends Error {
  override readonly name = "Violation";

  constructor(readonly rule: string) {
    super(`The model breaks ${rule}.`);
  }
}

type Call = (...args: readonly number[]) => unknown;

/** A Promela model whose actions can be called from TypeScript. All of them work on one state. */
export interface Model {
  /** What its `#define`s say. */
  readonly constants: Sizes;
  /** Parameters of each action. */
  readonly actions: ReadonlyMap<string, readonly string[]>;
  /** The global variables, but for the hidden ones. */
  readonly state: Uint8Array;
  /** A part of the state. */
  readonly variables: Readonly<Record<string, Uint8Array>>;
  /** Changes the state and returns true; or returns false where the action's guard does not hold. Throws a `Violation`. */
  act(action: string, args: readonly number[]): boolean;
}

/** The line after which Spin's processes follow. */
const processesFollow = "/* ---- who does what, for Spin ---- */";

/**
 * Translates the part of Promela that leases.pml uses, up to its processes: `#define`, bytes, inlines, `d_step`, `if`, `for` and
 * `assert`. Expressions mean the same in JavaScript. Spin and this find the same number of states: see checks.ts.
 * Without `isChecking` the assertions say nothing: a mutant goes on.
 */
export function loadModel(file: string | URL, sizes: Sizes = {}, isChecking = true): Model {
  const [actionsPart] = readFileSync(file, "utf8").split(processesFollow);
  const text = actionsPart!.replace(/\/\*[\s\S]*?\*\//g, "");
  const defined = [...text.matchAll(/^#define (\w+)(\([\w, ]+\))? (.+)$/gm)];
  const constants: Record<string, number> = {};
  for (const [, name, parameters, value] of defined)
    if (parameters === undefined && /^\d+\s*$/.test(value!)) constants[name!] = sizes[name!] ?? Number(value);
  const unknown = Object.keys(sizes).find((name) => !(name in constants));
  if (unknown !== undefined) throw new Error(`The model has no size ${unknown}.`);

  const declared = [...text.matchAll(/^(hidden )?byte (\w+)(?:\[([^\]]+)\])?(?: = (\w+))?;/gm)];
  const scratch = [...text.matchAll(/hidden byte (\w+)(?:\[([^\]]+)\])?/g)];
  const numberOf = (expression: string): number =>
    Number(new Function(...Object.keys(constants), `return ${expression}`)(...Object.values(constants)));
  const kept = declared.filter(([, hidden]) => hidden === undefined);
  const lengths = kept.map(([, , , length]) => (length === undefined ? 1 : numberOf(length)));
  const state = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0));
  const variables: Record<string, Uint8Array> = {};
  let offset = 0;
  for (const [index, [, , name, , initial]] of kept.entries()) {
    variables[name!] = state.subarray(offset, offset + lengths[index]!);
    offset += lengths[index]!;
    if (initial !== undefined) variables[name!]![0] = numberOf(initial);
  }
  const scalars = new Set(kept.filter(([, , , length]) => length === undefined).map(([, , name]) => name!));

  const inlines = inlinesOf(text, scalars);
  const code = [
    ...scratch.map(([, name, length]) =>
      length === undefined ? `let ${name} = 0;` : `const ${name} = new Uint8Array(${length});`,
    ),
    ...defined
      .filter(([, , parameters]) => parameters !== undefined)
      .map(([, name, parameters, value]) => `const ${name} = ${parameters} => (${value});`),
    ...inlines.map(({ name, parameters, body }) => `function ${name}(${parameters.join(", ")}) {\n${body}}`),
    `return { ${inlines.map(({ name }) => name).join(", ")} };`,
  ].join("\n");
  const given = { ...constants, ...variables, isChecking, Violation };
  const calls: Record<string, Call> = new Function(...Object.keys(given), code)(...Object.values(given));
  const actions = new Map(
    inlines.filter(({ isAction }) => isAction).map(({ name, parameters }) => [name, parameters]),
  );
  return { constants, actions, state, variables, act: (action, args) => calls[action]!(...args) === true };
}

interface Inline {
  readonly name: string;
  readonly parameters: readonly string[];
  readonly isAction: boolean;
  readonly body: string;
}

function inlinesOf(text: string, scalars: ReadonlySet<string>): readonly Inline[] {
  const tokens: readonly string[] =
    text.replace(/^#.*$/gm, "").match(/::|->|\.\.|[=!<>]=|&&|\|\||\+\+|--|\w+|\S/g) ?? [];
  const inlines: Inline[] = [];
  for (let at = tokens.indexOf("inline"); at !== -1; at = tokens.indexOf("inline", at + 1)) {
    const name = tokens[at + 1]!;
    const open = tokens.indexOf("{", at);
    const parameters = tokens.slice(at + 3, open - 1).filter((token) => token !== ",");
    const reader = new StatementReader(tokens, open + 1, name, scalars);
    const isAction = tokens[open + 1] === "d_step";
    inlines.push({ name, parameters, isAction, body: isAction ? reader.action() : reader.statements() });
  }
  return inlines;
}

/** Reads statements from one place on, and returns them in JavaScript. */
class StatementReader {
  constructor(
    private readonly tokens: readonly string[],
    private at: number,
    private readonly inline: string,
    private readonly scalars: ReadonlySet<string>,
  ) {}

  /** `d_step { guard -> statements }` */
  action(): string {
    this.at += 2;
    const guard = this.until("->");
    return `if (!(${guard})) return false;\n${this.statements()}return true;\n`;
  }

  /** Up to the end of a block, or to the next choice. */
  statements(): string {
    let code = "";
    while (!["}", "::", "fi"].includes(this.tokens[this.at]!)) code += this.statement();
    return code;
  }

  private statement(): string {
    const word = this.tokens[this.at]!;
    if (word === ";") return this.skip(1);
    if (word === "if") return this.choice();
    if (word === "for") return this.loop();
    if (word !== "assert") return `${this.until(";")};\n`;
    this.skip(1);
    return `if (isChecking && !${this.until(";")}) throw new Violation(${JSON.stringify(this.inline)});\n`;
  }

  /** The guards of an `if` exclude each other, or the first that holds is meant; the last is `else`. */
  private choice(): string {
    this.skip(1);
    const branches: string[] = [];
    while (this.tokens[this.at] === "::") {
      this.skip(1);
      const guard = this.until("->");
      const block = `{\n${this.statements()}}`;
      branches.push(guard === "else" ? block : `if (${guard}) ${block}`);
    }
    this.skip(1);
    return `${branches.join(" else ")}\n`;
  }

  /** `for (i : from .. to) { … }` */
  private loop(): string {
    this.skip(2);
    const index = this.until(":");
    const from = this.until("..");
    const to = this.until("{").replace(/\)$/, "");
    const body = this.statements();
    this.skip(1);
    return `for (${index} = ${from}; ${index} <= ${to}; ${index}++) {\n${body}}\n`;
  }

  private skip(tokens: number): string {
    this.at += tokens;
    return "";
  }

  /** An expression, and past the token that ends it. */
  private until(end: string): string {
    const from = this.at;
    while (this.tokens[this.at] !== end) this.at++;
    const words = this.tokens.slice(from, this.at++);
    if (words.length === 1 && words[0] === "skip") return "";
    return words.map((word) => (this.scalars.has(word) ? `${word}[0]` : word)).join(" ");
  }
}
