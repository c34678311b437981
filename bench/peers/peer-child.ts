import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { inTime } from "../in-time.js";

/** A process that returns one message for each that it is sent, and ends when it is sent 0. */
export interface PeerChild {
  ask<Answer>(question: number): Promise<Answer>;
  close(): Promise<void>;
}

const typescript = new URL("../typescript.mjs", import.meta.url).href;
const neededNode = [22, 18] as const;

/** Far above the longest answer of a full run, which takes some seconds. */
const longestAnswerMs = 300_000;

/** This Node, or one from the npm package "node" where this is too old for some peers. */
export function newNode(): string {
  const [major, minor] = process.versions.node.split(".").map(Number) as [number, number];
  if (major > neededNode[0] || (major === neededNode[0] && minor >= neededNode[1])) return process.execPath;
  const args = ["exec", "--yes", `--package=node@${neededNode[0]}`, "--", "node", "-p", "process.execPath"];
  const windows = process.platform === "win32";
  return execFileSync("npm", args, {
    encoding: "utf8",
    shell: windows,
    stdio: ["ignore", "pipe", "ignore"],
  }).trim();
}

/** Resolves when the process has said that it is ready, by its first message. One that is too late is killed. */
export async function startPeerChild(
  file: URL,
  args: readonly string[],
  execPath: string,
  answerMs = longestAnswerMs,
): Promise<PeerChild> {
  const name = `The process ${basename(file.pathname)} (${args[0]})`;
  const child = fork(fileURLToPath(file), args, { execPath, execArgv: ["--import", typescript] });
  const ended = once(child, "exit");
  const orKill = async <T>(what: string, work: Promise<T>): Promise<T> => {
    try {
      return await inTime(answerMs, () => `${name}: ${what}`, work);
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
  };
  const answer = async (what: string): Promise<unknown> => {
    const either = Promise.race([once(child, "message"), ended.then(() => undefined)]);
    const first = await orKill(what, either);
    if (first === undefined) throw new Error(`${name} ended with ${child.signalCode ?? child.exitCode}.`);
    return first[0];
  };
  await answer("its start");
  return {
    async ask<Answer>(question: number) {
      child.send(question);
      return (await answer(`its answer to ${question}`)) as Answer;
    },
    async close() {
      if (child.connected) child.send(0);
      await orKill("its end", ended);
    },
  };
}
