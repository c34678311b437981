import { answerParent } from "./answer-parent.js";
import type { OpenPeer, PeerName } from "./peer.js";

// A process of its own, because some peers need a newer Node than oncebox does. For every number that it is sent, it
// adds so many jobs, handles them, and sends the rate back.
const openers: Readonly<Record<PeerName, () => Promise<OpenPeer>>> = {
  "pg-boss": async () => (await import("./pg-boss.js")).openPgBoss,
  "graphile-worker": async () => (await import("./graphile-worker.js")).openGraphileWorker,
  plainjob: async () => (await import("./plainjob.js")).openPlainjob,
};

const [name, database, schema] = process.argv.slice(2) as [PeerName, string, string];
const open = await openers[name]();
const peer = await open(database, schema);

answerParent(
  async (count) => {
    await peer.fill(count);
    return peer.drain(count);
  },
  () => peer.close(),
);
