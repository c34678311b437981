import { type ChildProcess, spawn } from "node:child_process";
import { poisonExitCode } from "./messages.js";

/** `left`: it stopped on SIGTERM. */
export type ProcessEnd = "killed" | "poisoned" | "left" | "crashed";

export interface EndedProcess {
  readonly id: string;
  readonly end: ProcessEnd;
}

export interface Fleet {
  readonly counts: { readonly kills: number; readonly stops: number; readonly poisoned: number };
  /** Kills a process at random. Another one takes its place, as for every process that ends. */
  kill(): void;
  /** Stops a process at random, and continues it after `ms`. */
  stop(ms: number): void;
  /** Tells all processes to end, and waits for them. Returns all that there were. */
  close(): Promise<readonly EndedProcess[]>;
}

interface Member {
  readonly id: string;
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  continueAgain: (() => void) | undefined;
  isKilled: boolean;
}

const longestEndMs = 30_000;

/** Worker processes, always `size` of them. */
export function startFleet(size: number, argsOf: (id: string) => readonly string[]): Fleet {
  const counts = { kills: 0, stops: 0, poisoned: 0 };
  const members = new Set<Member>();
  const ended: EndedProcess[] = [];
  let isClosing = false;

  const start = (): void => {
    const id = String(ended.length + members.size);
    const child = spawn(process.execPath, argsOf(id), { stdio: ["ignore", "ignore", "inherit"] });
    const exit = new Promise<number | null>((resolve) => child.once("exit", resolve));
    const member: Member = {
      id,
      child,
      ended: exit.then((code) => leave(member, code)),
      continueAgain: undefined,
      isKilled: false,
    };
    members.add(member);
  };

  const leave = (member: Member, code: number | null): void => {
    member.continueAgain?.();
    members.delete(member);
    const end = endOf(member, code);
    if (end === "poisoned") counts.poisoned++;
    ended.push({ id: member.id, end });
    if (!isClosing) start();
  };

  const endOf = ({ isKilled }: Member, code: number | null): ProcessEnd => {
    if (code === poisonExitCode) return "poisoned";
    if (isKilled) return "killed";
    return isClosing && code === 0 ? "left" : "crashed";
  };

  const victim = (among: readonly Member[]): Member | undefined =>
    among[Math.floor(Math.random() * among.length)];

  const killAll = (): void => {
    for (const { child } of members) child.kill("SIGKILL");
  };
  process.once("exit", killAll);
  for (let i = 0; i < size; i++) start();
  return {
    counts,
    kill() {
      const member = victim([...members].filter((one) => !one.isKilled));
      if (member === undefined) return;
      member.isKilled = member.child.kill("SIGKILL");
      if (member.isKilled) counts.kills++;
    },
    stop(ms) {
      const member = victim([...members].filter((one) => one.continueAgain === undefined));
      if (!member?.child.kill("SIGSTOP")) return;
      counts.stops++;
      const timer = setTimeout(() => member.continueAgain?.(), ms);
      member.continueAgain = () => {
        clearTimeout(timer);
        member.continueAgain = undefined;
        member.child.kill("SIGCONT");
      };
    },
    async close() {
      isClosing = true;
      const left = [...members];
      for (const { child, continueAgain } of left) {
        continueAgain?.();
        child.kill("SIGTERM");
      }
      const timer = setTimeout(killAll, longestEndMs); // what has not ended by then counts as crashed
      await Promise.all(left.map((member) => member.ended));
      clearTimeout(timer);
      process.off("exit", killAll);
      return ended;
    },
  };
}
