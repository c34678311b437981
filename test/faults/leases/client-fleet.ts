import { type ChildProcess, fork } from "node:child_process";
import { seededFractions } from "../../support/seeded-fractions.js";

export interface FleetPlan {
  readonly processes: number;
  /** How often each process, and those that follow it, is killed; and stopped for `stopMs`. */
  readonly faultsEach: number;
  readonly stopMs: number;
  /** The most messages of a process before it is killed or stopped. */
  readonly messagesBetween: number;
  readonly seed: string;
  readonly path: string;
  /** The arguments of the n-th process of all. It starts at the key that its predecessor had come to. */
  argsOf(id: number, firstKey: number): readonly string[];
  readonly atEnd: (stop: () => void) => void;
}

export interface FleetCounts {
  readonly started: number;
  readonly kills: number;
  readonly stops: number;
}

/** Runs processes until each has ended by itself. One that is killed gets a successor. Rejects when one fails. */
export async function runFleet(plan: FleetPlan): Promise<FleetCounts> {
  const counts = { started: 0, kills: 0, stops: 0 };
  const running = new Set<ChildProcess>();
  plan.atEnd(() => {
    for (const child of running) child.kill("SIGKILL");
  });

  /** One process after the other, until one ends by itself. */
  async function runSlot(slot: number): Promise<void> {
    let firstKey = 0;
    for (let kills = 0; ; kills++) {
      const ended = await runProcess(slot, firstKey, kills < plan.faultsEach);
      if (!ended.wasKilled) return;
      counts.kills++;
      firstKey = ended.keyIndex;
    }
  }

  function runProcess(slot: number, firstKey: number, isVictim: boolean) {
    const id = counts.started++;
    const child = fork(plan.path, [...plan.argsOf(id, firstKey)], {
      execArgv: ["--no-warnings"],
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    running.add(child);
    const fractions = seededFractions(plan.seed, id);
    const [stopAfter, killAfter] = fractions.map(
      (fraction) => 1 + Math.floor(fraction * plan.messagesBetween),
    );
    let messages = 0;
    let keyIndex = firstKey;
    let wasKilled = false;
    child.on("message", (index: number) => {
      keyIndex = index;
      messages++;
      if (isVictim && messages === stopAfter) stop(child);
      if (isVictim && messages === stopAfter! + killAfter!) wasKilled = child.kill("SIGKILL");
    });
    return new Promise<{ wasKilled: boolean; keyIndex: number }>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        running.delete(child);
        if (wasKilled || code === 0) resolve({ wasKilled, keyIndex });
        else
          reject(
            new Error(`Process ${id} of slot ${slot} ended by itself (code ${code}, signal ${signal}).`),
          );
      });
    });
  }

  function stop(child: ChildProcess): void {
    counts.stops++;
    child.kill("SIGSTOP");
    setTimeout(() => child.kill("SIGCONT"), plan.stopMs);
  }

  await Promise.all(Array.from({ length: plan.processes }, (_, slot) => runSlot(slot)));
  return counts;
}
