import type { PeerName } from "./peer.js";
import { newNode, startPeerChild } from "./peer-child.js";

export interface StartedPeer {
  /** Adds and handles so many jobs, and returns the rate at which they were handled. */
  drain(count: number): Promise<number>;
  close(): Promise<void>;
}

/** Throws when the peer, or a Node that is new enough for it, cannot be had here. */
export async function startPeer(name: PeerName, database: string, schema = ""): Promise<StartedPeer> {
  // plainjob runs on any Node, and its embedded database must run on the same one as oncebox's.
  const execPath = name === "plainjob" ? process.execPath : newNode();
  const file = new URL("peer-process.ts", import.meta.url);
  const child = await startPeerChild(file, [name, database, schema], execPath);
  return { drain: (count) => child.ask(count), close: child.close };
}
