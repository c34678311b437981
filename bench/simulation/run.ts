import { dollarsPerMonth } from "./cost.js";
import { periodMs, simulate, usualWorld, type World } from "./simulate.js";

/** Computes the table of docs/scale.md: `npx tsx bench/simulation/run.ts`. */
const worlds: Readonly<Record<string, Partial<World>>> = {
  "100 tenants, one function": { tenants: 100, alone: true },
  "1,000 tenants, one function": { tenants: 1_000, alone: true },
  "10,000 tenants, one function": { tenants: 10_000, alone: true },
  "10,000 tenants, fan-out": {},
  "10,000 tenants, fan-out, all idle": { active: 0, hanging: 0 },
  "10,000 tenants, fan-out, 10 % active": { active: 0.1 },
  "50,000 tenants, fan-out": { tenants: 50_000 },
};

const rows = [];
for (const [name, changes] of Object.entries(worlds)) {
  const outcome = await simulate({ ...usualWorld, ...changes });
  rows.push({
    name,
    "drained after s": (outcome.drainedMs / 1_000).toFixed(1),
    left: outcome.left,
    invocations: outcome.invocations,
    "workers at once": outcome.workersAtOnce,
    "GB-s per timer": outcome.gbSeconds.toFixed(0),
    "$ per month": dollarsPerMonth(outcome, periodMs).toFixed(0),
  });
}
console.table(rows);
