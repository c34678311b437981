import { readFileSync } from "node:fs";
import { type Counterexample, explore, type Step } from "./explore.js";
import { loadModel, type Sizes } from "./promela.js";

export const modelFile = new URL("./leases.pml", import.meta.url);
export const counterexamplesFile = new URL("./counterexamples.md", import.meta.url);

/** A size to which the model is explored without a violation. */
export interface Check {
  readonly sizes: Sizes;
  /** How many there are, by Spin and, where `npm` says so, by this repository's own exploration too. */
  readonly states: number;
  /** `test`: explored by `npm test`. `proof`: by `npm run proof`. `spin`: only by Spin. */
  readonly npm: "test" | "proof" | "spin";
  /** Spin also checks that a due message ends, under weak fairness. */
  readonly isLiveness?: true;
}

export const checks: readonly Check[] = [
  { sizes: { N: 1, T: 3, MAX: 3 }, states: 3_806, npm: "test" },
  { sizes: { N: 2, T: 1 }, states: 20_576, npm: "test" },
  { sizes: { N: 2, MAX: 1 }, states: 20_932, npm: "test" },
  { sizes: { N: 2 }, states: 163_166, npm: "proof" },
  { sizes: { N: 2, BLOCK: 1 }, states: 108_234, npm: "proof" },
  { sizes: { N: 2, MAX: 3 }, states: 589_522, npm: "spin" },
  { sizes: { N: 2, T: 3 }, states: 996_530, npm: "spin" },
  { sizes: { N: 2, LEASE: 2 }, states: 219_634, npm: "spin" },
  { sizes: { N: 3, KEYS: 2, BUDGET: 0 }, states: 3_494_951, npm: "spin" },
  { sizes: { N: 3, BUDGET: 1 }, states: 6_805_987, npm: "spin" },
  { sizes: { N: 3, BUDGET: 1, BLOCK: 1 }, states: 5_278_233, npm: "spin" },
  { sizes: { N: 2, BUDGET: 2 }, states: 407_762, npm: "spin", isLiveness: true },
  { sizes: { N: 2, BUDGET: 2, BLOCK: 1 }, states: 312_445, npm: "spin", isLiveness: true },
  { sizes: { N: 2, BUDGET: 1, MAX: 3 }, states: 729_346, npm: "spin", isLiveness: true },
  { sizes: { N: 3, BUDGET: 0 }, states: 2_070_613, npm: "spin", isLiveness: true },
];

/** As the README has them. */
export const renderChecks = (): string =>
  [
    "| sizes | states | checked | by |",
    "|---|---|---|---|",
    ...checks.map(({ sizes, states, npm, isLiveness }) => {
      const by = { test: "`npm test` and Spin", proof: "`npm run proof` and Spin", spin: "Spin" }[npm];
      const what = isLiveness ? "liveness" : "rules";
      return `| ${sizesText(sizes)} | ${states.toLocaleString("en")} | ${what} | ${by} |`;
    }),
  ].join("\n");

export const sizesText = (sizes: Sizes): string =>
  Object.entries(sizes)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");

export interface Mutant {
  readonly name: string;
  readonly number: number;
  /** The smallest in which it can be seen. */
  readonly sizes: Sizes;
}

/** Mutants that need another size than the model's own. */
const sizesOf: Readonly<Record<string, Sizes>> = {
  HEAD_FREED_TWICE: { N: 3, BUDGET: 0 },
  LOST_NEVER_CLAIMABLE: { N: 1 },
  SUSPECT_AMONG_OTHERS: { MAX: 3 },
};

/** As the model lists them. */
export function mutants(): readonly Mutant[] {
  const [, list] = /\/\* What is wrong in a mutant\. \*\/\n((?:#define .*\n)+)/.exec(
    readFileSync(modelFile, "utf8"),
  )!;
  return [...list!.matchAll(/#define (\w+) (\d+)/g)].map(([, name, number]) => {
    const sizes = { ...sizesOf[name!], MUTANT: Number(number) };
    return { name: name!, number: Number(number), sizes };
  });
}

export interface CaughtMutant extends Mutant, Counterexample {}

/** Each mutant with a shortest way to a state that the model forbids. */
export const caughtMutants = (): readonly CaughtMutant[] =>
  mutants().map((mutant) => {
    const { counterexample } = explore(loadModel(modelFile, mutant.sizes));
    if (counterexample === undefined)
      throw new Error(`No rule of the model notices the mutant ${mutant.name}.`);
    return { ...mutant, ...counterexample };
  });

/** As they are kept. */
export function renderCounterexamples(caught: readonly CaughtMutant[]): string {
  const { actions, constants } = loadModel(modelFile);
  const shown = ({ action, args }: Step): string => {
    const named = args.flatMap((value, index) =>
      value === constants.NONE ? [] : `${actions.get(action)![index]} ${value}`,
    );
    return named.length === 0 ? action : `${action} (${named.join(", ")})`;
  };
  const sections = caught.map(({ name, number, rule, steps }) => {
    const list = steps.map((step, index) => `${index + 1}. ${shown(step)}\n`).join("");
    return `## ${number}. ${name}\n\nbreaks \`${rule}\`\n\n${list}`;
  });
  return `${preface}\n${sections.join("\n")}`;
}

const preface = `# Mutants and their counterexamples

Written by \`npm run proof -- --mutants\`, and compared by \`npm test\`. Each mutant is one fault that leases.pml can be made with
(\`-DMUTANT=1\`). Its counterexample is a shortest way to a state that the named rule forbids: the actions with their arguments, where
\`t\` is an owner token, \`m\` a message, \`n\` the size of a claim and \`k\` a partition key. \`ends\` is broken in a state from which no end can be
reached.
`;
