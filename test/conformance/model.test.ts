import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  caughtMutants,
  checks,
  counterexamplesFile,
  modelFile,
  mutants,
  renderCounterexamples,
} from "../../proof/checks.js";
import { explore, type Step } from "../../proof/explore.js";
import { loadModel, type Sizes } from "../../proof/promela.js";
import { emptyClaim, findsNothing } from "../../proof/walk.js";
import { useDatabase } from "../contract/harness.js";
import { sqliteHarness } from "../support/sqlite-harness.js";
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
