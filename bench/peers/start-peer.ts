import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { PeerName } from "./peer.js";

export interface StartedPeer {
  /** Adds and handles so many jobs, and returns the rate at which they were handled. */
  drain(count: number): Promise<number>;
  close(): Promise<void>;
}

const typescript = new URL("../typescript.mjs", import.meta.url).href;
const neededNode = [22, 18] as const;

/** This Node, or one from the npm package "node" where this is too old. */
function newNode(): string {
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

/** Throws when the peer, or a Node that is new enough for it, cannot be had here. */
export async function startPeer(name: PeerName, database: string, schema = ""): Promise<StartedPeer> {
  const file = fileURLToPath(new URL("peer-process.ts", import.meta.url));
  // plainjob runs on any Node, and its embedded database must run on the same one as oncebox's.
  const execPath = name === "plainjob" ? process.execPath : newNode();
  const child = fork(file, [name, database, schema], { execPath, execArgv: ["--import", typescript] });
  const ended = once(child, "exit");
  const answer = async (): Promise<number> => {
    const first = await Promise.race([once(child, "message"), ended.then(() => undefined)]);
    if (first === undefined) throw new Error(`${name} ended with code ${child.exitCode}.`);
    return first[0] as number;
  };
  await answer();
  return {
    async drain(count) {
      child.send(count);
      return answer();
    },
    async close() {
      child.send(0);
      await ended;
    },
  };
}
