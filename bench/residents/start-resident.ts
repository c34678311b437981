import { newNode, startPeerChild } from "../peers/peer-child.js";
import type { ResidentName, ResidentSettings } from "./resident.js";

export interface StartedResident {
  /** Adds so many quick jobs at random times, and returns how long each waited from its commit to its handler. */
  latenciesMs(count: number): Promise<readonly number[]>;
  close(): Promise<void>;
}

/** Everybody on the same Node. Throws when the queue, or a Node that is new enough for it, cannot be had here. */
export async function startResident(
  name: ResidentName,
  url: string,
  schema: string,
  { wake, pollMs }: Pick<ResidentSettings, "wake" | "pollMs">,
): Promise<StartedResident> {
  const file = new URL("resident-process.ts", import.meta.url);
  const child = await startPeerChild(file, [name, url, schema, wake, String(pollMs)], newNode());
  return { latenciesMs: (count) => child.ask(count), close: child.close };
}
