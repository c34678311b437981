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
export async function runFleet(plan: FleetPlan): Promise<FleetCounts> {
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
