import { fileURLToPath } from "node:url";
import { faults } from "../../support/lossy/decide-fault.js";
import type { Outcome } from "../../support/lossy/line.js";
import type { BothChildOptions } from "./child-options.js";
import { readNotes } from "./notes.js";
import type { Stage, StagePlan } from "./stage.js";

const child = fileURLToPath(new URL("./both-child.ts", import.meta.url));

/** One process with both services: a kill ends both. */
export async function inProcessStage(plan: StagePlan): Promise<Stage> {
  const { places, orders, notes, seed, processes } = plan;
  const options: BothChildOptions = { places, orders, notes, seed };
  const both = await processes.start(child, [JSON.stringify(options)]);
  return {
    get kills() {
      return { orders: both.kills, inventory: both.kills };
    },
    get outcomes() {
      const noted = readNotes(notes);
      const names: readonly Outcome[] = [...faults, "none", "away"];
      return Object.fromEntries(names.map((name) => [name, noted("outcome", name)])) as Record<
        Outcome,
        number
      >;
    },
    async idle() {}, // what is on its way ends with the process
  };
}
