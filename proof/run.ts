/**
 * npm run proof               explores the model's states
 * npm run proof -- --spin     the same with Spin, at larger sizes and with liveness
 * npm run proof -- --mutants  finds a counterexample of each mutant, and writes counterexamples.md; with --spin, Spin finds one, too
 */
import { writeFileSync } from "node:fs";
import {
  type Check,
  caughtMutants,
  checks,
  counterexamplesFile,
  modelFile,
  mutants,
  renderCounterexamples,
  sizesText,
} from "./checks.js";
import { explore, stepText } from "./explore.js";
import { loadModel, type Sizes } from "./promela.js";
import { hasSpin, runSpin } from "./spin.js";

const known = ["--spin", "--mutants"];
const given = process.argv.slice(2);
const unknown = given.find((option) => !known.includes(option));
if (unknown !== undefined)
  throw new Error(`There is no option ${unknown}. There are ${known.join(" and ")}.`);
const withSpin = given.includes("--spin");
if (withSpin && !(await hasSpin()))
  throw new Error(
    "Spin or gcc is not on the PATH. Install them: apt-get install spin gcc, or brew install spin.",
  );

if (given.includes("--mutants")) await checkMutants();
else for (const check of checks) await checkSize(check);

async function checkSize(check: Check): Promise<void> {
  const { sizes, isLiveness = false } = check;
  if (!withSpin && check.npm === "spin") return;
  const began = performance.now();
  const { states, problem } = withSpin ? await bySpin(sizes, isLiveness) : byExploring(sizes);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(
    `${sizesText(sizes)}${isLiveness ? " liveness" : ""}: ${states} states, ${problem ?? "no violation"}, ${seconds} s`,
  );
  if (problem === undefined && states === check.states) return;
  process.exitCode = 1;
  if (problem === undefined) console.log(`  checks.ts says ${check.states} states: has the model changed?`);
}

interface Found {
  readonly states: number;
  readonly problem?: string | undefined;
}

async function bySpin(sizes: Sizes, isLiveness: boolean): Promise<Found> {
  const { states, errors } = await runSpin(sizes, isLiveness);
  return { states, problem: errors === 0 ? undefined : "a violation" };
}

function byExploring(sizes: Sizes): Found {
  const { states, counterexample } = explore(loadModel(modelFile, sizes));
  if (counterexample === undefined) return { states };
  return {
    states,
    problem: `${counterexample.rule} is broken by ${counterexample.steps.map(stepText).join("; ")}`,
  };
}

async function checkMutants(): Promise<void> {
  writeFileSync(counterexamplesFile, renderCounterexamples(caughtMutants()));
  console.log(`${mutants().length} mutants, each with a counterexample: proof/counterexamples.md`);
  if (!withSpin) return;
  for (const { name, sizes } of mutants()) {
    // fairness is needed for what only never ends
    const isLiveness = name === "LOST_NEVER_CLAIMABLE";
    const { errors } = await runSpin({ ...sizes, ...(isLiveness ? { BUDGET: 1 } : {}) }, isLiveness);
    console.log(`${name}: ${errors === 0 ? "Spin finds nothing" : "found by Spin"}`);
    if (errors === 0) process.exitCode = 1;
  }
}
