import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { seededFractions } from "../seeded-random.js";
import { clock } from "./history-records.js";

interface ClientsPlan {
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

interface ClientPlan {
  readonly store: LeasingInboxStore;
  readonly keys: readonly string[];
  readonly leaseMs: number;
  /** From 0 to below 1. */
  readonly random: () => number;
  /** Lease ids that any client of this process has had. */
  readonly leaseIds: string[];
  /** Called before each key. */
  readonly onVisit?: () => void;
}

interface LateCall {
  readonly at: number;
  readonly make: () => Promise<unknown>;
}

/** What a client does with a key it has acquired, and how often. */
const habits = [
  [0.3, "finish"],
  [0.08, "finish twice"],
  [0.08, "renew, finish"],
  [0.14, "release"],
  [0.05, "release, finish"],
  [0.1, "use a foreign lease, finish"],
  /** Says nothing more: the lease ends by itself. */
  [0.05, "die"],
  [0.06, "renew, die"],
  [0.09, "come late"],
  [0.05, "come at the end"],
] as const;
type Habit = (typeof habits)[number][1];

/**
 * A client that wants every key processed, and does everything that clients do, wrong or right. All clients take the keys in
 * the same order, so that they meet. It returns when it has seen all keys processed.
 */
async function runLeaseClient(plan: ClientPlan): Promise<void> {
  const { store, keys, leaseMs, random, onVisit } = plan;
  let late: LateCall[] = [];

  const makeLateCalls = async (): Promise<void> => {
    const due = late.filter(({ at }) => at <= clock());
    late = late.filter((call) => !due.includes(call));
    for (const { make } of due) await make();
  };

  /** Whether the key is processed. */
  async function visit(key: string): Promise<boolean> {
    if (random() < 0.03) await store.isProcessed(key);
    if (random() < 0.03) await store.inspect(key);
    if (random() < 0.0005) await store.markProcessed(key);
    const begun = random() < 0.1 ? await beginTwice(key) : await store.tryBegin(key, { leaseMs });
    if (begun.status !== "Acquired") return begun.status === "Processed";
    plan.leaseIds.push(begun.leaseId);
    return use(key, begun.leaseId, habitFor(random()));
  }

  /** As a caller does that has lost the first answer. */
  async function beginTwice(key: string) {
    const options = { leaseMs, leaseId: randomUUID() };
    await store.tryBegin(key, options);
    return store.tryBegin(key, options);
  }

  async function use(key: string, leaseId: string, habit: Habit): Promise<boolean> {
    const finish = async () => (await store.finish(key, leaseId)).status === "Processed";
    switch (habit) {
      case "finish":
        return finish();
      case "finish twice":
        return (await finish()) && finish();
      case "renew, finish":
        await store.renew(key, leaseId, leaseMs);
        return finish();
      case "release":
        await store.release(key, leaseId);
        return false;
      case "release, finish":
        await store.release(key, leaseId);
        return finish();
      case "use a foreign lease, finish":
        await withLease(pick(plan.leaseIds), key);
        return finish();
      case "die":
        return false;
      case "renew, die":
        return after(leaseMs * 0.5, () => store.renew(key, leaseId, leaseMs));
      case "come late":
        return after(leaseMs * (1 + random()), () => withLease(leaseId, key));
      case "come at the end":
        return after(leaseMs * (0.9 + 0.15 * random()), () => withLease(leaseId, key));
    }
  }

  /** Makes a call later. Until then the key is not processed, as far as this client knows. */
  const after = (ms: number, make: LateCall["make"]): false => {
    late.push({ at: clock() + ms, make });
    return false;
  };

  const pick = <T>(among: readonly T[]): T => among[Math.floor(random() * among.length)]!;

  const withLease = (leaseId: string, key: string): Promise<unknown> =>
    pick([
      () => store.finish(key, leaseId),
      () => store.release(key, leaseId),
      () => store.renew(key, leaseId, leaseMs),
    ])();

  for (let open = keys; open.length > 0; ) {
    const unprocessed: string[] = [];
    for (const key of open) {
      onVisit?.();
      await makeLateCalls();
      if (!(await visit(key))) unprocessed.push(key);
    }
    open = unprocessed;
    // those that are left are leased: nothing changes at once
    if (open.length > 0) await pause(leaseMs * (0.1 + 0.2 * random()));
  }
  while (late.length > 0) {
    await pause(leaseMs * 0.1);
    await makeLateCalls();
  }
}

function habitFor(fraction: number): Habit {
  let left = fraction;
  for (const [share, habit] of habits) {
    if (left < share) return habit;
    left -= share;
  }
  return "finish";
}
