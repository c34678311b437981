import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { type BundledChild, bundleChild } from "./bundled-child.js";
import { seededFractions } from "./seeded-random.js";

/** A service in a process of its own, which can be killed and started again. */
export interface ServiceProcess {
  /** What it printed after "ready". */
  readonly address: string;
  /** How often it was killed. */
  readonly kills: number;
  /** SIGKILL; resolves when the process has ended. */
  kill(): Promise<void>;
  /** Starts it again with the same arguments on the same address. */
  startAgain(): Promise<void>;
}

export interface KillPlan {
  readonly seed: string;
  /** It ends after so many kills. */
  readonly kills: number;
  /** The longest time from one start to the next kill. The shortest is a quarter of it. */
  readonly maxPauseMs: number;
  /** The n-th kill, from 0 on, also waits for this. It should resolve when the signal aborts. */
  readonly waitFor?: (kill: number) => Promise<void>;
  /** Ends it earlier. */
  readonly signal: AbortSignal;
}

export interface ServiceProcesses {
  /**
   * Starts a TypeScript module. It gets the arguments and, as the last one, the address to listen on, empty for any. When
   * it listens it prints a line: `ready <address>`.
   */
  start(file: string, args: readonly string[]): Promise<ServiceProcess>;
  /** Kills the services one by one at random and starts each again. Returns how many kills there were. */
  killAtRandom(plan: KillPlan): Promise<number>;
  /** Ends all processes. Rejects when one had ended that nobody killed. */
  stop(): Promise<void>;
}

/** `atEnd` is `onTestFinished` or `afterAll`: the processes then also end when the test fails or is out of time. */
export function serviceProcesses(atEnd: (stop: () => Promise<void>) => void): ServiceProcesses {
  const bundles = new Map<string, Promise<BundledChild>>();
  const running = new Set<ChildProcess>();
  const services: ServiceProcess[] = [];
  const defects: string[] = [];
  let isStopped = false;

  async function kill(child: ChildProcess): Promise<void> {
    if (!running.delete(child)) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  /** Resolves with the process and its address when it is ready. */
  async function launch(file: string, args: readonly string[]): Promise<[ChildProcess, string]> {
    if (!bundles.has(file)) bundles.set(file, bundleChild(file));
    const { path } = await bundles.get(file)!;
    if (isStopped) throw new Error(`${file} is not started: the processes were stopped.`);
    const child = spawn(process.execPath, ["--no-warnings", path, ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    running.add(child);
    return await new Promise((resolve, reject) => {
      createInterface(child.stdout).on("line", (line) => {
        if (line.startsWith("ready ")) resolve([child, line.slice("ready ".length)]);
      });
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        const wasKilled = !running.delete(child);
        const end = `${file} ended ${wasKilled ? "when it was killed" : "by itself"} (code ${code}, signal ${signal}).`;
        if (!wasKilled) defects.push(`${end} See its error output.`);
        reject(new Error(end)); // no effect when it was ready
      });
    });
  }

  async function stop(): Promise<void> {
    isStopped = true;
    await Promise.all([...running].map(kill));
    for (const bundle of bundles.values()) await (await bundle).remove();
    bundles.clear();
    if (defects.length > 0) throw new Error(defects.splice(0).join("\n"));
  }
  atEnd(stop);

  return {
    async start(file, args) {
      let [child, address] = await launch(file, [...args, ""]);
      let kills = 0;
      const service: ServiceProcess = {
        address,
        get kills() {
          return kills;
        },
        async kill() {
          kills++;
          await kill(child);
        },
        async startAgain() {
          [child] = await launch(file, [...args, address]);
        },
      };
      services.push(service);
      return service;
    },
    async killAtRandom({ seed, kills, maxPauseMs, waitFor, signal }) {
      for (let killed = 0; killed < kills; killed++) {
        const [which, wait, away] = seededFractions(seed, killed);
        // the pauses are the rhythm of the kills; nothing is asserted on them
        await pause((maxPauseMs * (1 + 3 * wait)) / 4, undefined, { signal }).catch(() => {});
        await waitFor?.(killed);
        if (signal.aborted || isStopped) return killed;
        const victim = services[Math.floor(which * services.length)]!;
        await victim.kill();
        await pause((away * maxPauseMs) / 4);
        await victim.startAgain().catch((error) => {
          if (!isStopped) throw error;
        });
      }
      return kills;
    },
    stop,
  };
}
