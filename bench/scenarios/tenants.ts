import { periodMs, simulate, usualWorld } from "../simulation/simulate.js";
import type { Scenario } from "./scenario.js";

/** Simulated, without a database: the part of a timer period that 10,000 tenants take, of which one in a hundred has work. */
export const tenants: Scenario = async ({ databaseName }) => {
  if (databaseName !== "sqlite") return []; // once is enough
  const { drainedMs, left, handled } = await simulate(usualWorld);
  return [
    {
      name: `${usualWorld.tenants} tenants by fan-out`,
      database: "simulated",
      unit: "messages/s",
      rate: handled / (drainedMs / 1_000),
      referenceRate: handled / (periodMs / 1_000),
      ratio: left === 0 ? drainedMs / periodMs : Number.NaN,
      ratioTo: "one timer period",
      spread: 0,
      target: { atMost: 1 },
    },
  ];
};
