import type { OpenPeer, PeerName } from "./peer.js";

// A process of its own, because the peers need a newer Node than oncebox does: for every number that it is sent, it
// adds so many jobs, handles them, and answers the rate.
const openers: Readonly<Record<PeerName, () => Promise<OpenPeer>>> = {
  "pg-boss": async () => (await import("./pg-boss.js")).openPgBoss,
  "graphile-worker": async () => (await import("./graphile-worker.js")).openGraphileWorker,
};

const [name, url, schema] = process.argv.slice(2) as [PeerName, string, string];
const open = await openers[name]();
const peer = await open(url, schema);

process.on("message", async (count: number) => {
  if (count === 0) {
    await peer.close();
    process.disconnect();
    return;
  }
  await peer.fill(count);
  process.send!(await peer.drain(count));
});
process.send!(0);
