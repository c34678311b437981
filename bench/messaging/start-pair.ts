import type { BenchDatabase } from "../databases/bench-database.js";
import { startPeerChild } from "../peers/peer-child.js";
import type { ReceiverAnswer, SenderAnswer, SideName } from "./two-processes.js";

/** A sender and a receiver of one side, each in a process of its own and with tables of its own. */
export interface Pair {
  /** Sends so many messages. Throws unless the receiver has got as many. */
  send(count: number): Promise<SenderAnswer & Pick<ReceiverAnswer, "startedAt">>;
  close(): Promise<void>;
}

const file = (name: string) => new URL(`${name}-process.ts`, import.meta.url);

/** `atOnce` is how many messages are on their way at once. */
export async function startPair(
  database: BenchDatabase,
  side: SideName,
  listenAt: string,
  atOnce: number,
): Promise<Pair> {
  const places = [database.newPlace(), database.newPlace()] as const;
  const [from, to] = places;
  const { execPath } = process;
  const receiver = await startPeerChild(file("receiver"), [side, to.url, to.schema, listenAt], execPath);
  const { address } = await receiver.ask<ReceiverAnswer>(1);
  const args = [side, from.url, from.schema, address, String(atOnce)];
  const sender = await startPeerChild(file("sender"), args, execPath);
  return {
    async send(count) {
      const answer = await sender.ask<SenderAnswer>(count);
      const { startedAt } = await receiver.ask<ReceiverAnswer>(1);
      if (startedAt.length !== count)
        throw new Error(`messaging: the receiver got ${startedAt.length} of ${count} messages.`);
      return { ...answer, startedAt };
    },
    async close() {
      await sender.close();
      await receiver.close();
      for (const place of places) await place.close();
    },
  };
}
