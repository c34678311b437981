import { type ChildProcess, fork } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { bundleChild } from "../../support/bundled-child.js";
import {
  type History,
  type HistoryRecord,
  historyOf,
  readRecords,
} from "../../support/leases/history-records.js";
import { leaseKeys, runLeaseClients } from "../../support/leases/lease-clients.js";
import { recordedStore } from "../../support/leases/recorded-store.js";
import { seededFractions } from "../../support/seeded-random.js";
import type { LeaseChildOptions } from "./lease-child.js";

interface LeasePlan {
  readonly store: LeasingInboxStore;
  readonly clients: number;
  readonly keys: number;
  readonly leaseMs: number;
  readonly seed: string;
}

interface ProcessesPlan
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
      calls: [...killed.calls, ...last.calls],
      errors: [...killed.errors, ...last.errors],
      faults,
    };
  } finally {
    await bundled.remove();
    await rm(folder, { recursive: true, force: true });
  }
}

interface FleetPlan {
  readonly processes: number;
  /** How often each process, and those that follow it, is killed; and stopped for `stopMs`. */
  readonly faultsEach: number;
  readonly stopMs: number;
  /** The most messages of a process before it is killed or stopped. */
  readonly messagesBetween: number;
  readonly seed: string;
  readonly path: string;
  /** The arguments of the n-th process of all. It may follow one that was killed. */
  argsOf(id: number, predecessor: number | undefined): readonly string[];
  readonly atEnd: (stop: () => void) => void;
}

export interface FleetCounts {
  readonly started: number;
  readonly kills: number;
  readonly stops: number;
}

/** Runs processes until each has ended by itself. One that is killed gets a successor. Rejects when one fails. */
async function runFleet(plan: FleetPlan): Promise<FleetCounts> {
  const counts = { started: 0, kills: 0, stops: 0 };
  const running = new Set<ChildProcess>();
  plan.atEnd(() => {
    for (const child of running) child.kill("SIGKILL");
  });

  /** One process after the other, until one ends by itself. */
  async function runSlot(): Promise<void> {
    let predecessor: number | undefined;
    for (let kills = 0; ; kills++) {
      const { id, wasKilled } = await runProcess(predecessor, kills < plan.faultsEach);
      if (!wasKilled) return;
      counts.kills++;
      predecessor = id;
    }
  }

  function runProcess(predecessor: number | undefined, isVictim: boolean) {
    const id = counts.started++;
    const child = fork(plan.path, [...plan.argsOf(id, predecessor)], {
      execArgv: ["--no-warnings"],
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    running.add(child);
    const fractions = seededFractions(plan.seed, id);
    const [stopAfter, killAfter] = fractions.map(
      (fraction) => 1 + Math.floor(fraction * plan.messagesBetween),
    );
    let messages = 0;
    let wasKilled = false;
    child.on("message", () => {
      messages++;
      if (isVictim && messages === stopAfter) stop(child);
      if (isVictim && messages === stopAfter! + killAfter!) wasKilled = child.kill("SIGKILL");
    });
    return new Promise<{ id: number; wasKilled: boolean }>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        running.delete(child);
        if (wasKilled || code === 0) resolve({ id, wasKilled });
        else reject(new Error(`Process ${id} ended by itself (code ${code}, signal ${signal}).`));
      });
    });
  }

  function stop(child: ChildProcess): void {
    counts.stops++;
    child.kill("SIGSTOP");
    setTimeout(() => child.kill("SIGCONT"), plan.stopMs);
  }

  await Promise.all(Array.from({ length: plan.processes }, runSlot));
  return counts;
}
