import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { modelFile } from "./checks.js";
import type { Sizes } from "./promela.js";

const run = promisify(execFile);

export interface SpinResult {
  readonly states: number;
  readonly errors: number;
}

/** Whether Spin and a C compiler are on the PATH. */
export const hasSpin = async (): Promise<boolean> => {
  try {
    await Promise.all([run("spin", ["-V"]), run("gcc", ["--version"])]);
    return true;
  } catch {
    return false;
  }
};

/** Explores all states with Spin. Partial-order reduction is off, so that the numbers of states can be compared. */
export async function runSpin(sizes: Sizes, isLiveness: boolean): Promise<SpinResult> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-spin-"));
  const defines = Object.entries(sizes).map(([name, value]) => `-D${name}=${value}`);
  const kind = isLiveness ? ["-DNFAIR=3"] : ["-DSAFETY"];
  const options = { cwd: folder, maxBuffer: 2 ** 26 };
  try {
    await run(
      "spin",
      [...defines, ...(isLiveness ? ["-DLIVENESS"] : []), "-a", fileURLToPath(modelFile)],
      options,
    );
    await run(
      "gcc",
      ["-O1", "-DNOREDUCE", "-DCOLLAPSE", "-DMEMLIM=12000", ...kind, "-o", "pan", "pan.c"],
      options,
    );
    const { stdout } = await run(
      "./pan",
      ["-m20000000", "-w26", ...(isLiveness ? ["-a", "-f"] : [])],
      options,
    );
    const number = (pattern: RegExp) => Number(pattern.exec(stdout)?.[1]);
    const isWhole = !/max search depth|out of memory|memory limit|Search not completed/.test(stdout);
    const errors = number(/errors: (\d+)/);
    if (errors === 0 && !isWhole) throw new Error(`Spin did not see all states:\n${stdout}`);
    return { states: number(/(\d+) states, stored/), errors };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
