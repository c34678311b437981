import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** A process that returns one message for each that it is sent, and ends when it is sent 0. */
export interface PeerChild {
  ask<Answer>(question: number): Promise<Answer>;
  close(): Promise<void>;
}

const typescript = new URL("../typescript.mjs", import.meta.url).href;
const neededNode = [22, 18] as const;

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

/** Resolves when the process has said that it is ready, by its first message. */
export async function startPeerChild(
  file: URL,
  args: readonly string[],
  execPath: string,
): Promise<PeerChild> {
  const child = fork(fileURLToPath(file), args, { execPath, execArgv: ["--import", typescript] });
  const ended = once(child, "exit");
  const answer = async (): Promise<unknown> => {
    const first = await Promise.race([once(child, "message"), ended.then(() => undefined)]);
    if (first === undefined) throw new Error(`${args[0]} ended with code ${child.exitCode}.`);
    return first[0];
  };
  await answer();
  return {
    async ask<Answer>(question: number) {
      child.send(question);
      return (await answer()) as Answer;
    },
    async close() {
      child.send(0);
      await ended;
    },
  };
}
