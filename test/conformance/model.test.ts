import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  caughtMutants,
  checks,
  counterexamplesFile,
  modelFile,
  mutants,
  renderChecks,
  renderCounterexamples,
} from "../../proof/checks.js";
import { explore, type Step } from "../../proof/explore.js";
import { loadModel, type Model, type Sizes } from "../../proof/promela.js";
import { emptyClaim, findsNothing, walker } from "../../proof/walk.js";
import { useDatabase } from "../contract/harness.js";
import { seededRandom } from "../support/seeded-random.js";
import { sqliteHarness } from "../support/sqlite-harness.js";
import { stepsOfTrace, traceSizes } from "./conformance.js";
import { compare, openRealQueue, play } from "./real-queue.js";

const caught = caughtMutants();

describe("the model of leases", () => {
  it.each(checks.filter(({ npm }) => npm === "test"))(
    "ADD-28 every state of $sizes keeps the rules, and there are as many as Spin finds",
    ({ sizes, states }) => {
      expect(explore(loadModel(modelFile, sizes))).toEqual({ states, transitions: expect.any(Number) });
    },
  );

  it("ADD-28 every mutant is caught, by its kept counterexample", () => {
    expect(caught).toHaveLength(mutants().length);
    expect(renderCounterexamples(caught), "npm run proof -- --mutants writes it").toBe(
      readFileSync(counterexamplesFile, "utf8"),
    );
  });

  it("ADD-28 every rule is broken by a mutant", () => {
    const inlines = readFileSync(modelFile, "utf8")
      .split(/^inline /m)
      .slice(1);
    const rules = inlines.filter((text) => text.includes("assert(")).map((text) => /\w+/.exec(text)![0]);
    expect(new Set(caught.map(({ rule }) => rule))).toEqual(new Set([...rules, "ends"]));
  });
});

describe("the model beside the code", () => {
  const file = new URL("../../proof/MAPPING.md", import.meta.url);
  const mapping = readFileSync(file, "utf8");

  it("ADD-28 every action of the model is in MAPPING.md", () => {
    for (const action of loadModel(modelFile).actions.keys()) expect(mapping).toContain(`| \`${action}\` |`);
  });

  it("ADD-28 every name in MAPPING.md is in the file that it links to", () => {
    const links = [...mapping.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)];
    expect(links.length).toBeGreaterThan(40);
    const missing = links.filter(
      ([, name, path]) => !readFileSync(new URL(path!, file), "utf8").includes(name!),
    );
    expect(missing.map(([link]) => link).filter((link) => link !== "[leases.pml](leases.pml)")).toEqual([]);
  });

  it("ADD-28 every rule and every size is in README.md, with its states", () => {
    const readme = readFileSync(new URL("../../proof/README.md", import.meta.url), "utf8");
    for (const { rule } of caught) expect(readme).toContain(`\`${rule}\``);
    expect(readme).toContain(renderChecks());
  });
});

describe("random traces of the model", () => {
  it("ADD-28 have late, lost and repeated settlements, suspects, deaths, new heads and replays among them", () => {
    const random = seededRandom(28);
    const reached = new Set<string>();
    for (let trace = 0; trace < 60; trace++) {
      const model = loadModel(modelFile, { ...traceSizes, BLOCK: trace % 2 });
      const walk = walker(model);
      for (let step = 0; step < stepsOfTrace; step++) {
        const before = Object.fromEntries(
          Object.entries(model.variables).map(([name, of]) => [name, of.slice()]),
        );
        const done = walk(Math.floor(random() * 2 ** 31));
        for (const what of whatHappened(model, before, done)) reached.add(what);
      }
    }
    const settlements = ["ack", "abandon", "fail", "release", "renew"];
    expect([...reached].sort()).toEqual(
      [
        ...settlements.flatMap((action) => [`${action} in time`, `late ${action}`, `lost ${action}`]),
        ...["lost ack that returns a message", "ack that returns a message", "ack without an answer"],
        ...["claim of a lost message", "claim of a suspect before an older message", "claims nothing"],
        ...["claim ends a message", "reap ends a message", "replay to the end of a partition queue"],
        ...["ack", "abandon", "claim", "fail", "reap"].map((action) => `${action} makes a head ready`),
      ].sort(),
    );
  });
});

type Variables = Model["variables"];

function* whatHappened(
  { variables: after, constants }: Model,
  before: Variables,
  { action, args }: Step,
): Generator<string> {
  const [t, m] = args as [number, number];
  const { N, NONE, READY, BLOCKED, DEAD } = constants;
  const all = Array.from({ length: N! }, (_, index) => index);
  const became = (from: number | undefined, to: number | undefined) =>
    all.some((one) => before.status![one] === from && after.status![one] === to);
  if (action === emptyClaim.action) yield action;
  if (["ack", "abandon", "fail", "release", "renew"].includes(action)) {
    const isLost = before.owner![m] !== t;
    yield isLost ? `lost ${action}` : before.lease![m] === 0 ? `late ${action}` : `${action} in time`;
    if (action === "ack" && args[2] === 0) yield "ack without an answer";
    if (action === "ack" && args[3] !== NONE) yield `${isLost ? "lost ack" : "ack"} that returns a message`;
  }
  if (action === "claim") {
    const taken = all.filter((one) => after.owner![one] === t);
    if (taken.some((one) => before.owner![one] !== 0)) yield "claim of a lost message";
    const isOlder = (one: number) =>
      before.status![one] === READY &&
      before.due![one]! <= 1 &&
      before.again![one] === 0 &&
      !taken.includes(one);
    if (
      taken.some((one) => all.some((other) => isOlder(other) && before.place![other]! < before.place![one]!))
    )
      yield "claim of a suspect before an older message";
  }
  if (["claim", "reap"].includes(action) && became(READY, DEAD)) yield `${action} ends a message`;
  if (action !== "replay" && became(BLOCKED, READY)) yield `${action} makes a head ready`;
  if (action === "replay" && became(DEAD, BLOCKED)) yield "replay to the end of a partition queue";
}

/** What is wrong with it is not in the database: the dispatcher makes a new token for every claim. */
const elsewhere = "TOKEN_USED_AGAIN";

describe("the mutants beside the database", () => {
  const database = useDatabase(sqliteHarness("memory"));

  /** Does the steps that are possible, and then claims what is due. */
  const replay = async (sizes: Sizes, steps: readonly Step[]): Promise<void> => {
    const model = loadModel(modelFile, { ...sizes, T: 3 }, false);
    const real = await openRealQueue(database(), "outbox", model);
    const tick = { action: "tick", args: [] };
    const claim = { action: "claim", args: [3, 1, model.constants.NONE!] };
    for (const step of [...steps, tick, tick, claim]) {
      const owners = model.variables.owner!.slice();
      if (model.act(step.action, step.args)) await play(real, model, step, owners);
      else if (step.action === "claim" && findsNothing(model)) await play(real, model, emptyClaim, owners);
      await compare(real, model);
    }
  };

  it.each(caught.filter(({ name }) => name !== elsewhere))(
    "ADD-28 the database does not do what the mutant $name does, and does what the model does",
    async ({ sizes, steps }) => {
      await expect(replay(sizes, steps)).rejects.toThrow();
      await replay({ ...sizes, MUTANT: 0 }, steps);
    },
  );
});
