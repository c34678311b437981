import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { OpenInbox } from "../databases/bench-database.js";

export interface Fleet {
  /** What all workers have acknowledged so far. */
  acked(): number;
  /** Ends one of them as a crash would, and starts no other. */
  killOne(): void;
  stop(): Promise<void>;
}

export interface FleetSettings {
  readonly workers: number;
  readonly leaseMs: number;
  readonly shortestMs: number;
  readonly longestMs: number;
}

/** Workers in processes of their own. Resolves when every one of them has acknowledged something. */
export async function startFleet({ url, schema }: OpenInbox, settings: FleetSettings): Promise<Fleet> {
  const file = fileURLToPath(new URL("worker-process.ts", import.meta.url));
  const { workers, leaseMs, shortestMs, longestMs } = settings;
  const args = [url, schema, leaseMs, shortestMs, longestMs].map(String);
  let acked = 0;
  const children = Array.from({ length: workers }, () => fork(file, args, { execArgv: process.execArgv }));
  const working = children.map(
    (child) =>
      new Promise<void>((resolve, reject) => {
        child.on("message", (count: number) => {
          acked += count;
          if (count > 0) resolve();
        });
        child.once("exit", (code) => reject(new Error(`A worker ended with code ${code}.`)));
      }),
  );
  const stop = async (): Promise<void> => {
    await Promise.all(children.map(killed));
  };
  try {
    await Promise.all(working);
  } catch (error) {
    await stop();
    throw error;
  }
  return { acked: () => acked, killOne: () => void children[0]!.kill("SIGKILL"), stop };
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}
