import type { LeasingInboxStore } from "../../../src/service/inbox-store.js";
import { seededFractions } from "../seeded-fractions.js";
import { runLeaseClient } from "./lease-client.js";

export interface ClientsPlan {
  readonly store: LeasingInboxStore;
  readonly clients: number;
  readonly keys: readonly string[];
  readonly leaseMs: number;
  readonly seed: string;
  readonly onVisit?: () => void;
}

/** The keys of a run, in the order in which clients take them. */
export const leaseKeys = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `key-${index}`);

/** Clients of one process, at once. Resolves when each of them has seen all keys processed. */
export async function runLeaseClients({ clients, seed, ...plan }: ClientsPlan): Promise<void> {
  const leaseIds: string[] = [];
  const client = (_: unknown, index: number) =>
    runLeaseClient({ ...plan, leaseIds, random: randomOf(`${seed} ${index}`) });
  await Promise.all(Array.from({ length: clients }, client));
}

function randomOf(seed: string): () => number {
  let index = 0;
  return () => seededFractions(seed, index++)[0];
}
