import { readdir, readFile } from "node:fs/promises";

/** The CPU time that a process has taken so far, in all its threads. Linux says it to the nanosecond. */
export async function cpuMsOf(pid: number): Promise<number> {
  const threads = `/proc/${pid}/task`;
  let ns = 0;
  for (const thread of await readdir(threads)) {
    const [onCpu] = (await readFile(`${threads}/${thread}/schedstat`, "utf8")).split(" ");
    ns += Number(onCpu);
  }
  return ns / 1_000_000;
}
