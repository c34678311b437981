import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { LeasingInboxStore } from "../../../src/service/inbox-store.js";
import { bundleChild } from "../../support/bundled-child.js";
import {
  type History,
  type HistoryRecord,
  historyOf,
  readRecords,
} from "../../support/leases/history-records.js";
import { leaseKeys, runLeaseClients } from "../../support/leases/lease-clients.js";
import { recordedStore } from "../../support/leases/recorded-store.js";
import { type FleetCounts, type FleetPlan, runFleet } from "./client-fleet.js";
import type { LeaseChildOptions } from "./lease-child.js";

export interface LeasePlan {
  readonly store: LeasingInboxStore;
  readonly clients: number;
  readonly keys: number;
  readonly leaseMs: number;
  readonly seed: string;
}

export interface ProcessesPlan
  extends LeasePlan,
    Pick<FleetPlan, "processes" | "faultsEach" | "messagesBetween" | "atEnd">,
    Pick<LeaseChildOptions, "settings"> {}

const child = fileURLToPath(new URL("./lease-child.ts", import.meta.url));

/** All clients in this process. At the end every key is inspected. */
export async function runInOneProcess(plan: LeasePlan): Promise<History> {
  const records: HistoryRecord[] = [];
  const store = recordedStore(plan.store, (record) => records.push(record));
  const keys = leaseKeys(plan.keys);
  await runLeaseClients({ ...plan, store, keys });
  for (const key of keys) await store.inspect(key);
  return historyOf([records]);
}

/** The clients in several processes, which are killed and stopped. At the end every key is inspected. */
export async function runInProcesses(
  plan: ProcessesPlan,
): Promise<History & { readonly faults: FleetCounts }> {
  const { settings, keys, leaseMs } = plan;
  const clients = plan.clients / plan.processes;
  const folder = await mkdtemp(join(tmpdir(), "oncebox-leases-"));
  const recordsOf = (id: number) => join(folder, `${id}.jsonl`);
  const bundled = await bundleChild(child);
  const argsOf = (id: number, before: number | undefined): readonly string[] => {
    const seed = `${plan.seed} ${id}`;
    const records = recordsOf(id);
    const predecessor = before === undefined ? undefined : recordsOf(before);
    const options: LeaseChildOptions = { settings, records, clients, keys, predecessor, leaseMs, seed };
    return [JSON.stringify(options)];
  };
  try {
    const faults = await runFleet({ ...plan, path: bundled.path, stopMs: 1.5 * leaseMs, argsOf });
    const last = await runInOneProcess({ ...plan, clients: 0 });
    const killed = historyOf(Array.from({ length: faults.started }, (_, id) => readRecords(recordsOf(id))));
    return {
      operations: [...killed.operations, ...last.operations],
      errors: [...killed.errors, ...last.errors],
      faults,
    };
  } finally {
    await bundled.remove();
    await rm(folder, { recursive: true, force: true });
  }
}
