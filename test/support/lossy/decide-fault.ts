import { seededFractions } from "../seeded-random.js";

export const faults = [
  /** The receiver never sees the request, and the sender sees a cut connection. */
  "drop-request",
  /** The receiver handles the request, and the sender sees a cut connection instead of the answer. */
  "drop-answer",
  /** The receiver gets a part of the request. */
  "cut-request",
  /** The receiver handles the request, and the sender gets a part of the answer. */
  "cut-answer",
  "delay",
  /** The receiver gets the request twice at the same time. */
  "duplicate",
  /** The receiver gets the request again when it was answered and later ones have passed. */
  "late-duplicate",
  /** The request is held back until later ones have passed. */
  "reorder",
] as const;

export type Fault = (typeof faults)[number];

/** A direct call cannot be cut in the middle. */
const cuts: readonly Fault[] = ["cut-request", "cut-answer"];
export const inProcessFaults: readonly Fault[] = faults.filter((fault) => !cuts.includes(fault));

export interface Decision {
  readonly fault: Fault | "none";
  /** How much of it, from 0 to below 1: where a cut is, how long a delay is, how many others pass. */
  readonly amount: number;
}

export interface FaultPlan {
  readonly seed: string;
  /** The share of the requests that suffer a fault, 0.2 by default. Each kind is as likely as every other. */
  readonly share?: number;
  /** All kinds by default. */
  readonly kinds?: readonly Fault[];
}

/** What happens to the n-th request: always the same for the same plan. */
export function decideFault(plan: FaultPlan, index: number): Decision {
  const { seed, share = 0.2, kinds = faults } = plan;
  const [chance, kind, amount] = seededFractions(seed, index);
  return { fault: chance < share ? kinds[Math.floor(kind * kinds.length)]! : "none", amount };
}
